"""The IDX reader against files written byte by byte, and MNIST where it is at hand."""

import gzip
import os
import struct
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.data import emnist_letters, fashion_mnist, kuzushiji_mnist, load, mnist, read_idx

NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def idx(array):
    """The bytes of an IDX file, written as its definition says."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A tiny MNIST: 12 and 5 images of 3 x 2, plain and gzipped files."""
    rng = np.random.default_rng(0)
    where = tmp_path / "mnist"
    where.mkdir()
    for part, count in (("train", 12), ("test", 5)):
        images, labels = NAMES[part]
        pixels = rng.integers(0, 256, (count, 3, 2), dtype=np.uint8)
        (where / f"{images}.gz").write_bytes(gzip.compress(idx(pixels)))
        (where / labels).write_bytes(idx(np.arange(count, dtype=np.uint8) % 10))
    return tmp_path


@pytest.mark.parametrize(
    ("reader", "name"), [(fashion_mnist, "fashion-mnist"), (kuzushiji_mnist, "kuzushiji-mnist")]
)
def test_relatives_have_folders_of_their_own(folder, reader, name):
    (folder / "mnist").rename(folder / name)
    made = reader(folder=str(folder), validation=3)
    assert made.name == reader.__name__
    assert len(made.train[0]) == 9
    assert made.test[1].tolist() == [0, 1, 2, 3, 4]


def write_emnist(place, *, zipped, first=1):
    rng = np.random.default_rng(1)
    stored, files = {}, {}
    for part, count in (("train", 52), ("test", 26)):
        stored[part] = rng.integers(0, 256, (count, 3, 2), dtype=np.uint8)
        labels = (first + np.arange(count) % 26).astype(np.uint8)
        files[f"emnist-letters-{part}-images-idx3-ubyte.gz"] = gzip.compress(idx(stored[part]))
        files[f"emnist-letters-{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels))
    where = place / "emnist"
    where.mkdir(exist_ok=True)
    if zipped:
        with zipfile.ZipFile(where / "gzip.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(f"gzip/{name}", content)
    for name, content in () if zipped else files.items():
        (where / name).write_bytes(content)
    return stored


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "loose"])
def test_letters_are_set_upright_and_numbered_from_0(tmp_path, zipped):
    stored = write_emnist(tmp_path, zipped=zipped)
    made = emnist_letters(folder=str(tmp_path), validation=0)
    assert made.features == (1, 2, 3)
    for part in ("train", "test"):
        x, y = getattr(made, part)
        assert np.array_equal(x[:, 0].numpy(), stored[part].transpose(0, 2, 1))
        assert y.tolist() == (np.arange(len(x)) % 26).tolist()
    strict = load("emnist_letters", folder=str(tmp_path), without="OISZ", validation=4)
    assert [len(part[0]) for part in (strict.train, strict.validation, strict.test)] == [40, 4, 22]
    assert set(range(26)) - set(strict.test[1].tolist()) == {8, 14, 18, 25}


def test_damaged_letters_are_refused(tmp_path):
    write_emnist(tmp_path, zipped=True, first=0)
    with pytest.raises(NescioError, match="must be in 1..26, got 0"):
        emnist_letters(folder=str(tmp_path), validation=0)
    path = tmp_path / "emnist" / "gzip.zip"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(NescioError, match=r"cannot read gzip/emnist-letters-train-images.* again"):
        emnist_letters(folder=str(tmp_path))
    path.unlink()
    with pytest.raises(
        NescioError, match=r"lacks emnist-letters-train-images.*; expected there: g"
    ):
        emnist_letters(folder=str(tmp_path))


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    packed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_what_is_written_is_read(tmp_path_factory, sizes, packed, seed):
    array = np.random.default_rng(seed).integers(0, 256, sizes, dtype=np.uint8)
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    np.testing.assert_array_equal(read_idx(path), array)
    assert read_idx(str(path)).shape == tuple(sizes)


def test_parts_have_the_pixels_and_labels_of_the_files(folder, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    made = mnist(folder=str(folder), validation=4, seed=3)
    pixels = read_idx(folder / "mnist" / "train-images-idx3-ubyte.gz")
    assert [len(part[0]) for part in (made.train, made.validation, made.test)] == [8, 4, 5]
    assert made.features == (1, 3, 2)
    x = torch.cat([made.train[0], made.validation[0]])
    y = torch.cat([made.train[1], made.validation[1]])
    rows = {tuple(image.ravel()): label % 10 for label, image in enumerate(pixels)}
    assert len(rows) == 12
    assert x.dtype == torch.uint8
    for image, label in zip(x, y, strict=True):
        assert rows.pop(tuple(image.flatten().tolist())) == label
    assert not rows
    again = mnist(folder=str(folder), validation=4, seed=3)
    other = mnist(folder=str(folder), validation=4, seed=4)
    assert torch.equal(made.validation[0], again.validation[0])
    assert not torch.equal(made.validation[1], other.validation[1])
    assert mnist(folder=str(folder), validation=0).validation is None


def test_the_setting_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(folder))
    assert len(load("mnist", validation=2).train[0]) == 10


def test_without_data_it_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    with pytest.raises(NescioError, match="set NESCIO_DATA to a folder that holds a folder mnist"):
        mnist()
    with pytest.raises(NescioError, match="there is no folder .*mnist; NESCIO_DATA"):
        mnist(folder=str(tmp_path))
    (tmp_path / "mnist").mkdir()
    with pytest.raises(NescioError, match=r"lacks train-images-idx3-ubyte\.gz"):
        mnist(folder=str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"begin with 0 0 8 .* got \[\]"),
        (b"\x89PNG and more", "is not an IDX file of unsigned bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "is not an IDX file of unsigned bytes"),
        (bytes([0, 0, 8, 0]), "is not an IDX file"),
        (idx(np.zeros((3, 2), np.uint8))[:-1], "should hold 3 x 2 bytes .* got 5; .* cut off"),
        (idx(np.zeros(3, np.uint8)) + b"0", "got 4"),
        (bytes([0, 0, 8, 3, 0, 0]), "cut off"),
        (gzip.compress(b"some bytes" * 9, mtime=0)[:-9], "cannot read .*file"),
        (b"\x1f\x8b and then something else", "cannot read .*file"),
    ],
)
def test_a_damaged_file_says_so(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(NescioError, match=message):
        read_idx(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(NescioError, match="cannot read .*nowhere"):
        read_idx(tmp_path / "nowhere")
    with pytest.raises(NescioError, match="cannot read"):
        read_idx(tmp_path)


def test_parts_must_fit_together(folder):
    (folder / "mnist" / NAMES["test"][1]).write_bytes(idx(np.zeros(4, np.uint8)))
    with pytest.raises(NescioError, match=r"got \(5, 3, 2\) and \(4,\) for the part t10k"):
        mnist(folder=str(folder), validation=1)


@pytest.mark.parametrize("options", [{"validation": 12}, {"validation": -1}, {"seed": -1}])
def test_options_are_checked(folder, options):
    with pytest.raises(NescioError, match=f"`{next(iter(options))}` must be"):
        mnist(folder=str(folder), **({"validation": 2} | options))


def write_kuzushiji(folder, part, count, seed=0):
    (folder / "kuzushiji-mnist").mkdir(exist_ok=True)
    images = np.random.default_rng(seed).integers(0, 256, (count, 28, 28), dtype=np.uint8)
    for kind, array in (("imgs", images), ("labels", np.arange(count, dtype=np.uint8) % 10)):
        np.savez(folder / "kuzushiji-mnist" / f"kmnist-{part}-{kind}.npz", array)
    return images


def test_kuzushiji_in_npz_files_may_have_no_training_part(tmp_path):
    test = write_kuzushiji(tmp_path, "test", 12)
    made = kuzushiji_mnist(folder=str(tmp_path))
    assert made.train[0].shape == (0, 1, 28, 28)
    assert np.array_equal(made.test[0][:, 0].numpy(), test)
    assert made.test[1].tolist() == [*range(10), 0, 1]
    train = write_kuzushiji(tmp_path, "train", 25, seed=1)
    whole = kuzushiji_mnist(folder=str(tmp_path), validation=0)
    assert np.array_equal(whole.train[0][:, 0].numpy(), train)
    (tmp_path / "kuzushiji-mnist" / "kmnist-train-labels.npz").unlink()
    with pytest.raises(NescioError, match=r"lacks kmnist-train-labels\.npz"):
        kuzushiji_mnist(folder=str(tmp_path))


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no KMNIST")
def test_kuzushiji_mnist_itself():
    x, y = kuzushiji_mnist(validation=0).test
    assert x.shape == (10000, 1, 28, 28)
    assert torch.bincount(y).tolist() == [1000] * 10


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no MNIST")
def test_mnist_itself():
    made = mnist()
    assert made.train[0].shape == (55000, 1, 28, 28)
    assert len(made.validation[0]) == 5000
    x, y = made.test
    assert torch.bincount(y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert y[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    whole = torch.cat([made.train[0], made.validation[0]])
    mean = whole.double().mean().item() / 255
    square = whole.double().square().mean().item() / 255**2
    assert mean == pytest.approx(0.13066, abs=5e-6)  # as is known
    assert (square - mean**2) ** 0.5 == pytest.approx(0.30811, abs=5e-6)
    assert x.min() == 0
    assert x.max() == 255


@pytest.mark.skipif(
    not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no Fashion-MNIST"
)
def test_fashion_mnist_itself():
    made = fashion_mnist(validation=0)
    assert torch.bincount(made.train[1]).tolist() == [6000] * 10
    assert made.test[1][:8].tolist() == [9, 2, 1, 1, 6, 1, 4, 6]  # as is known
    assert made.train[0].double().mean().item() / 255 == pytest.approx(0.2860, abs=5e-5)
