"""Corrupted digits in the three layouts that there are."""

import io
import os
import zipfile

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import load
from nescio_papers.data import corruptions, mnist_c

RNG = np.random.default_rng(0)
IMAGES = {name: RNG.integers(0, 256, (4, 5, 6), dtype=np.uint8) for name in ("fog", "blur")}
LABELS = np.array([3, 1, 4, 1])


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write(where, layout):
    where.mkdir(parents=True, exist_ok=True)
    if layout == "npz":
        np.savez(where / "some.npz", labels=LABELS.astype(np.uint8), **IMAGES)
        return
    files = {}
    for name, images in IMAGES.items():
        files[f"mnist_c/{name}/test_images.npy"] = as_npy(images[..., None])
        files[f"mnist_c/{name}/test_labels.npy"] = as_npy(LABELS)
        files[f"mnist_c/{name}/train_images.npy"] = b"never read"
    if layout == "zip":
        with zipfile.ZipFile(where / "mnist_c.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return
    for name, content in files.items():
        own = name if layout == "unpacked" else name.removeprefix("mnist_c/")
        (where / own).parent.mkdir(parents=True, exist_ok=True)
        (where / own).write_bytes(content)


@pytest.mark.parametrize("layout", ["npz", "zip", "folders", "unpacked"])
@pytest.mark.parametrize("own", ["mnist-c", "mnist-c-dev"])
def test_each_corruption_is_a_set(tmp_path, layout, own):
    write(tmp_path / own, layout)
    found = corruptions(folder=str(tmp_path))
    assert list(found) == ["blur", "fog"]
    for name, (x, y) in found.items():
        assert x.dtype == torch.uint8
        assert np.array_equal(x[:, 0].numpy(), IMAGES[name])
        assert y.tolist() == LABELS.tolist()
    one = load("mnist_c", folder=str(tmp_path), corruption="fog")
    assert torch.equal(one.test[0], found["fog"][0])
    assert len(one.train[0]) == 0
    every = mnist_c(folder=str(tmp_path))
    assert torch.equal(every.test[0], torch.cat([found["blur"][0], found["fog"][0]]))
    assert every.test[1].tolist() == [3, 1, 4, 1, 3, 1, 4, 1]


def test_an_unknown_corruption_lists_the_known(tmp_path):
    write(tmp_path / "mnist-c", "npz")
    with pytest.raises(NescioError, match="unknown corruption 'blurr'; did you mean 'blur'"):
        mnist_c(folder=str(tmp_path), corruption="blurr")


def test_damaged_files_are_refused(tmp_path):
    where = tmp_path / "mnist-c"
    where.mkdir()
    with pytest.raises(
        NescioError, match=r"lacks an .npz file; expected there: mnist_c.zip; fetch"
    ):
        mnist_c(folder=str(tmp_path))
    path = where / "some.npz"
    np.savez(path, **IMAGES)
    with pytest.raises(NescioError, match="lacks labels"):
        mnist_c(folder=str(tmp_path))
    np.savez(path, labels=LABELS)
    with pytest.raises(NescioError, match="labels only"):
        mnist_c(folder=str(tmp_path))
    np.savez(path, labels=LABELS[:3], **IMAGES)
    with pytest.raises(NescioError, match=r"got uint8 \(4, 5, 6\) and \(3,\)"):
        mnist_c(folder=str(tmp_path))
    np.savez(path, labels=LABELS, fog=IMAGES["fog"] / 255)
    with pytest.raises(NescioError, match=r"expected uint8 images .* got float64"):
        mnist_c(folder=str(tmp_path))
    packed = where / "mnist_c.zip"
    packed.write_bytes(b"no archive")
    with pytest.raises(NescioError, match=r"cannot read .*mnist_c.zip: .* fetch it again"):
        mnist_c(folder=str(tmp_path))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mnist_c/readme.txt", "")
    with pytest.raises(NescioError, match="holds no folder with test_images.npy"):
        mnist_c(folder=str(tmp_path))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mnist_c/fog/test_images.npy", as_npy(IMAGES["fog"]))
    with pytest.raises(NescioError, match=r"cannot read .*mnist_c.zip: .*test_labels.npy"):
        mnist_c(folder=str(tmp_path))


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no MNIST-C")
def test_mnist_c_itself():
    found = corruptions()
    assert {"shot_noise", "glass_blur", "rotate", "brightness", "dotted_line"} <= set(found)
    known = load("mnist", validation=0).test[1]
    for x, y in found.values():
        assert x.shape[1:] == (1, 28, 28)
        assert torch.equal(y, known[: len(y)])
