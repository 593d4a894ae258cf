"""SVHN from MATLAB files and from crops, both written here."""

import lzma
import os

import numpy as np
import pytest
import torch
from scipy.io import savemat

from nescio.core import NescioError
from nescio.data import load, svhn

RNG = np.random.default_rng(0)


def write_mat(path, count, labels=None):
    pixels = RNG.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
    labels = 1 + np.arange(count) % 10 if labels is None else labels
    savemat(path, {"X": pixels, "y": np.asarray(labels, np.uint8)[:, None]})
    return pixels


def write_npy_xz(path, array):
    with lzma.open(path, "wb") as file:
        np.save(file, array)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "svhn").mkdir()
    return tmp_path


def test_published_files(place):
    train = write_mat(place / "svhn" / "train_32x32.mat", 23)
    test = write_mat(place / "svhn" / "test_32x32.mat", 11)
    made = svhn(folder=str(place), validation=0)
    assert made.train[0].dtype == torch.uint8
    assert np.array_equal(made.train[0].permute(2, 3, 1, 0).numpy(), train)
    assert np.array_equal(made.test[0].permute(2, 3, 1, 0).numpy(), test)
    assert made.test[1].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]  # 10 is the digit 0
    split = load("svhn", folder=str(place), validation=5)
    assert [len(part[0]) for part in (split.train, split.validation)] == [18, 5]


def test_the_test_file_alone_is_a_set_to_test_on(place):
    write_mat(place / "svhn" / "test_32x32.mat", 3)
    made = svhn(folder=str(place))
    assert made.train[0].shape == (0, 3, 32, 32)
    assert made.validation is None
    assert made.test[1].tolist() == [1, 2, 3]


def test_crops(place):
    pixels = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    write_npy_xz(place / "svhn" / "some_x.npy.xz", pixels)
    np.savez(place / "svhn" / "some_y.npz", y=np.array([0, 9, 3, 0, 1], np.uint8))
    made = svhn(folder=str(place))
    assert len(made.train[0]) == 0
    assert np.array_equal(made.test[0].permute(0, 2, 3, 1).numpy(), pixels)
    assert made.test[1].tolist() == [0, 9, 3, 0, 1]
    np.savez(place / "svhn" / "some_y.npz", y=np.arange(4))
    with pytest.raises(NescioError, match=r"has 5 images but .*some_y.npz 4 labels"):
        svhn(folder=str(place))


@pytest.mark.parametrize("missing", ["svhn_more", "svhn_test"])
def test_crops_without_labels_say_what_is_expected_and_what_to_fetch(place, missing):
    for name in ("svhn_more", "svhn_test"):
        write_npy_xz(place / "svhn" / f"{name}_x.npy.xz", np.zeros((2, 32, 32, 3), np.uint8))
        np.savez(place / "svhn" / f"{name}_y.npz", y=np.arange(2))
    (place / "svhn" / f"{missing}_y.npz").unlink()
    expected = (
        f"svhn lacks {missing}_y.npz with the labels y of {missing}_x.npy.xz; expected there: "
        "train_32x32.mat, test_32x32.mat; fetch them with: nescio data download svhn"
    )
    with pytest.raises(NescioError, match=expected):
        svhn(folder=str(place))


def test_several_files_of_crops_are_a_training_and_a_test_part(place):
    for name, labels in (("b", [1, 2]), ("some_test", [3, 4]), ("a", [5, 6])):
        write_npy_xz(place / "svhn" / f"{name}_x.npy.xz", np.zeros((2, 32, 32, 3), np.uint8))
        np.savez(place / "svhn" / f"{name}_y.npz", y=np.array(labels))
    made = svhn(folder=str(place), validation=0)
    assert made.train[1].tolist() == [5, 6, 1, 2]
    assert made.test[1].tolist() == [3, 4]
    split = svhn(folder=str(place), validation=1)
    assert [len(part[0]) for part in (split.train, split.validation)] == [3, 1]


def test_files_of_crops_must_tell_which_one_is_the_test_part(place):
    for name in ("b", "a"):
        write_npy_xz(place / "svhn" / f"{name}_x.npy.xz", np.zeros((2, 32, 32, 3), np.uint8))
        np.savez(place / "svhn" / f"{name}_y.npz", y=np.arange(2))
    with pytest.raises(
        NescioError, match=r"several _x.npy.xz files, a_x.npy.xz and b_x.npy.xz .*`test`"
    ):
        svhn(folder=str(place))
    write_mat(place / "svhn" / "test_32x32.mat", 3)
    assert len(svhn(folder=str(place)).test[0]) == 3


def test_damaged_files_are_refused(place):
    path = place / "svhn" / "test_32x32.mat"
    with pytest.raises(NescioError, match=r"lacks test_32x32.mat; .* nescio data download svhn"):
        svhn(folder=str(place))
    write_mat(path, 4)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(NescioError, match=r"cannot read .*test_32x32.mat: .* version 5"):
        svhn(folder=str(place))
    path.write_bytes(b"MATLAB 7.3 MAT-file" + bytes(600))
    with pytest.raises(NescioError, match=r"cannot read .*test_32x32.mat"):
        svhn(folder=str(place))
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8)})
    with pytest.raises(NescioError, match="lacks y"):
        svhn(folder=str(place))
    write_mat(path, 4, labels=[1, 2, 3])
    with pytest.raises(NescioError, match=r"got uint8 \(32, 32, 3, 4\) and \(3, 1\)"):
        svhn(folder=str(place))
    write_mat(path, 3, labels=[0, 2, 3])
    with pytest.raises(NescioError, match=r"must be in 1..10, got 0..3"):
        svhn(folder=str(place))


def test_damaged_crops_are_refused(place):
    path = place / "svhn" / "some_x.npy.xz"
    np.savez(place / "svhn" / "some_y.npz", y=np.arange(5))
    write_npy_xz(path, np.zeros((5, 32, 32, 3), np.uint8))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(NescioError, match=r"cannot read .*some_x.npy.xz.* copy it again"):
        svhn(folder=str(place))
    path.write_bytes(b"no xz")
    with pytest.raises(NescioError, match=r"cannot read .*some_x.npy.xz"):
        svhn(folder=str(place))
    with lzma.open(path, "wb") as file:
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(NescioError, match=r"some_x.npy.xz holds pickled objects"):  # never read
        svhn(folder=str(place))


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no SVHN")
def test_svhn_itself():
    made = svhn()
    x, y = made.test
    assert made.train[0].shape[1:] == x.shape[1:]
    assert made.features == (3, 32, 32)
    assert x.dtype == torch.uint8
    shares = torch.bincount(y).double() / len(y)
    known = torch.tensor([1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595]) / 26032
    assert (shares - known).abs().max() < 0.01  # 1, then 2, are the most frequent
