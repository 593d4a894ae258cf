"""UCI regression sets: a made-up archive, and the published sizes where the files are there."""

import io
import os
import tarfile

import pytest
import torch

from nescio.core import NescioError
from nescio_papers.data import uci, uci_splits

FILES = {
    "data": "1 2 10\n3 4 20\n5 6 30\n7 8 40\n",
    "index_features": "0.0\n1.0\n",
    "index_target": "2\n",
    "index_train_0": "0\n2\n3\n",
    "index_test_0": "1\n",
    "index_train_1": "3\n1\n",
    "index_test_1": "0\n2\n",
    "n_splits": "2\n",
}


def pack(path, files):
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "uci").mkdir()
    pack(tmp_path / "uci" / "own.tar.xz", {f"own/data/{n}.txt": t for n, t in FILES.items()})
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
    with pytest.raises(NescioError, match=r"cannot read .*bad.tar.xz"):
        uci(folder=str(folder), name="bad")


def test_all_splits_of_an_archive(folder):
    found = uci_splits("own", folder=str(folder))
    assert [(train.tolist(), test.tolist()) for train, test in found.rows] == [
        ([0, 2, 3], [1]),
        ([3, 1], [0, 2]),
    ]
    assert (len(found), found.x.shape, found.y.tolist()) == (2, (4, 2), [[10], [20], [30], [40]])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("0\n2\n", "1\n", r"not a partition of the 4 rows: 2 training and 1 test rows, 0 .*1 in"),
        ("0\n2\n3\n1\n", "1\n", "1 rows twice or more and 0 in neither"),
        ("0\n1\n2\n3\n", "", "4 training and 0 test rows"),
        ("0\n2\n3\n", "4\n", "split 0 of bad has rows 0 to 4, the table 4 rows"),
        ("0\n2\n3\n", "-1\n", "rows -1 to 3"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_a_split_that_is_not_a_partition_is_refused(folder, train, test, message):
    files = {**FILES, "index_train_0": train, "index_test_0": test}
    pack(folder / "uci" / "bad.tar.xz", {f"bad/data/{n}.txt": t for n, t in files.items()})
    with pytest.raises(NescioError, match=message):
        uci(folder=str(folder), name="bad")


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
@pytest.mark.parametrize(
    ("name", "train", "test", "features"),
    [("bostonHousing", 455, 51, 13), ("concrete", 927, 103, 8), ("energy", 691, 77, 8)],
)
def test_published_sizes(name, train, test, features):
    found = uci(name=name, split=3)
    assert (len(found.train[0]), len(found.test[0]), found.features) == (train, test, (features,))
