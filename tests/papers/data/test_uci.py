"""UCI regression sets: a made-up archive, and the published sizes where the files are there."""

import io
import os
import tarfile

import pytest
import torch

from nescio.core import NescioError
from nescio_papers.data import uci


def pack(path, files):
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "uci").mkdir()
    files = {
        "data": "1 2 10\n3 4 20\n5 6 30\n7 8 40\n",
        "index_features": "0.0\n1.0\n",
        "index_target": "2\n",
        "index_train_0": "0\n2\n3\n",
        "index_test_0": "1\n",
    }
    pack(tmp_path / "uci" / "own.tar.xz", {f"own/data/{n}.txt": t for n, t in files.items()})
    return tmp_path


def test_a_split_of_an_archive(folder):
    found = uci(folder=str(folder), name="own")
    assert torch.equal(found.train[0], torch.tensor([[1.0, 2], [5, 6], [7, 8]]))
    assert torch.equal(found.train[1], torch.tensor([[10.0], [30], [40]]))
    assert torch.equal(found.test[0], torch.tensor([[3.0, 4]]))
    assert found.task == "regression"


def test_what_is_refused(folder):
    with pytest.raises(NescioError, match=r"lacks none.tar.xz .there: own."):
        uci(folder=str(folder), name="none")
    with pytest.raises(NescioError, match="cannot read own/data/index_train_7.txt"):
        uci(folder=str(folder), name="own", split=7)
    (folder / "uci" / "bad.tar.xz").write_bytes(b"x")
    with pytest.raises(NescioError, match="cannot read bad/data/data.txt"):
        uci(folder=str(folder), name="bad")


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
@pytest.mark.parametrize(
    ("name", "train", "test", "features"),
    [("bostonHousing", 455, 51, 13), ("concrete", 927, 103, 8), ("energy", 691, 77, 8)],
)
def test_published_sizes(name, train, test, features):
    found = uci(name=name, split=3)
    assert (len(found.train[0]), len(found.test[0]), found.features) == (train, test, (features,))
