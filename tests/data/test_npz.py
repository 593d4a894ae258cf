"""Data from .npz files: conversions, splits, and every way a file can be wrong."""

import io

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import dataset_from_npz, read_npz

X, LABELS = np.arange(60.0).reshape(20, 3), np.arange(20) % 4


@pytest.fixture
def write(tmp_path):
    def writer(**arrays):
        path = tmp_path / "mine.npz"
        np.savez(path, **arrays)
        return path

    return writer


def test_inputs_alone_and_with_targets(write):
    x, y = read_npz(write(x=X))
    assert y is None
    assert x.dtype == torch.float32
    np.testing.assert_array_equal(x, X)
    _, y = read_npz(str(write(x=X, y=LABELS.astype(np.uint8), more=X)))
    assert y.dtype == torch.int64
    np.testing.assert_array_equal(y, LABELS)
    _, y = read_npz(write(x=X, y=X[:, 0]))
    assert y.dtype == torch.float32
    assert y.shape == (20, 1)


def test_bytes_are_images_other_integers_are_numbers(write):
    image = np.array([[0, 51, 255]], dtype=np.uint8)
    whole = read_npz(write(x=image[None, None]))[0]
    assert whole.tolist() == [[[[0, 51, 255]]]]
    assert whole.dtype == torch.uint8
    with pytest.raises(NescioError, match="only images"):
        read_npz(write(x=image))
    assert read_npz(write(x=image.astype(np.int16)))[0].tolist() == [[0, 51, 255]]


def test_whole_data_are_split_by_seed(write):
    path = write(x=X, y=LABELS)
    made, again, other = (dataset_from_npz(path, seed=seed) for seed in (0, 0, 1))
    parts = (made.train, made.validation, made.test)
    assert [len(x) for x, _ in parts] == [16, 2, 2]
    assert made.name == "mine"
    assert made.classes == 4
    assert torch.equal(made.train[0], again.train[0])
    assert not torch.equal(made.train[0], other.train[0])
    x, y = (torch.cat(columns) for columns in zip(*parts, strict=True))
    order = x[:, 0].argsort()
    np.testing.assert_array_equal(x[order], X)
    np.testing.assert_array_equal(y[order], LABELS)


def test_few_samples_are_all_for_training(write):
    made = dataset_from_npz(write(x=X[:9], y=X[:9, :2]))
    assert len(made.train[0]) == 9
    assert made.validation is made.test is None
    assert made.task == "regression"


def test_ready_parts_are_kept(write):
    made = dataset_from_npz(
        write(x_train=X, y_train=LABELS, x_test=X[:2], y_test=np.array([0, 7])), seed=9
    )
    np.testing.assert_array_equal(made.train[0], X)
    np.testing.assert_array_equal(made.test[1], [0, 7])
    assert made.validation is None
    assert made.classes == 8  # the largest label of any part, plus one


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": X, "y": LABELS}, "lacks x; found images, y"),
        ({}, "lacks x.*; found no arrays"),
        ({"x": X * np.nan, "y": LABELS}, "x in .*mine.npz holds NaN, infinity"),
        ({"x": X, "y": np.full(20, np.inf)}, "y in .* holds NaN, infinity"),
        ({"x": X + 1e300, "y": LABELS}, "a number beyond float32"),
        ({"x": X, "y": LABELS[:5]}, "must have the same length, got 20 and 5"),
        ({"x": X[:0], "y": LABELS[:0]}, r"not be empty, got \(0, 3\)"),
        ({"x": X, "y": LABELS[:0]}, "y in .* is empty"),
        ({"x": X[:, 0], "y": LABELS}, r"must have shape \(N, ...\)"),
        ({"x": X, "y": LABELS[:, None]}, r"must be \(N,\) labels, got shape \(20, 1\)"),
        ({"x": X, "y": LABELS - 1}, r"labels from 0 up, got -1..2"),
        ({"x": X, "y": X[:, None]}, r"must be \(N,\) or \(N, D\) targets"),
        ({"x": X.astype(str), "y": LABELS}, "x in .* must hold real numbers, got <U"),
        ({"x": X.astype(object), "y": LABELS}, "x in .* holds pickled objects, .* never loaded"),
    ],
)
def test_bad_arrays_are_refused(write, arrays, message):
    path = write(**arrays)
    for reader in (read_npz, dataset_from_npz):
        with pytest.raises(NescioError, match=message):
            reader(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "lacks y; found x"),
        ({"x_train": X}, "lacks y_train; found x_train"),
        ({"x_test": X, "y_test": LABELS}, "lacks x_train, y_train; found x_test, y_test"),
        ({"x_train": X, "y_train": LABELS, "x_test": X}, "lacks y_test; found x_test, x_train"),
        ({"x_train": X, "y_train": LABELS, "x": X}, "both whole data and ready parts"),
        (
            {"x_train": X, "y_train": LABELS, "x_test": X, "y_test": X},
            "integer y in one part and floating-point y in another",
        ),
        ({"x": X, "y": LABELS * 0}, "one label only, 0"),
    ],
)
def test_bad_data_sets_are_refused(write, arrays, message):
    with pytest.raises(NescioError, match=message):
        dataset_from_npz(write(**arrays))


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "none.npz", tmp_path):
        with pytest.raises(NescioError, match=r"there is no file .*; expected the path of"):
            read_npz(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    for content in (b"", b"not an archive", b"PK\x03\x04cut"):
        path.write_bytes(content)
        with pytest.raises(NescioError, match=r"other.npz is not an .npz file, or is cut off"):
            read_npz(path)
    single = io.BytesIO()
    np.save(single, X)
    path.write_bytes(single.getvalue())
    with pytest.raises(NescioError, match="one unnamed array"):
        read_npz(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_cut_and_damaged_files_are_refused(tmp_path, save):
    path = tmp_path / "cut.npz"
    save(path, x=np.random.default_rng(0).normal(size=(50, 40)))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(NescioError, match="cut off"):
        read_npz(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes(50) + content[middle + 50 :])
    with pytest.raises(NescioError, match=r"cannot read x in .*damaged"):
        read_npz(path)


def test_a_negative_seed_is_refused(write):
    with pytest.raises(NescioError, match="`seed` must be 0 or more, got -1"):
        dataset_from_npz(write(x=X, y=LABELS), seed=-1)


def test_label_maps_are_read_with_what_they_ignore(write):
    images = np.zeros((20, 1, 2, 3), np.uint8)
    maps = np.arange(120).reshape(20, 2, 3) % 4
    made = dataset_from_npz(
        write(x=images, y=np.where(maps == 3, 255, maps).astype(np.uint8)), ignore_index=255
    )
    assert made.classes == 3
    assert made.train[1].dtype == torch.uint8
    assert made.train[1].shape == (16, 2, 3)
    marked = np.where(maps == 3, -100, maps)
    assert dataset_from_npz(write(x=images, y=marked), ignore_index=-100).classes == 3
    few = np.where(LABELS > 1, -1, LABELS)
    assert dataset_from_npz(write(x=X, y=few), ignore_index=-1).classes == 2
    with pytest.raises(NescioError, match="ignore_index=1 is a class"):
        dataset_from_npz(write(x=images, y=maps), ignore_index=1)
    with pytest.raises(NescioError, match="all labels in the train part of .* are ignored"):
        dataset_from_npz(write(x=images, y=np.full_like(maps, 255)), ignore_index=255)
    with pytest.raises(NescioError, match="must be in 0.."):
        dataset_from_npz(write(x=images, y=marked))
