"""A data set checks itself when made."""

import pytest
import torch

from nescio.core import NescioError
from nescio.data import Dataset
from nescio.data.dataset import hold_out, only_tests, split

X, LABELS, TARGETS = torch.zeros(4, 3, 2), torch.tensor([0, 2, 0, 2]), torch.zeros(4, 2)


def test_classification_and_its_shape_labels_may_have_gaps():
    made = Dataset(
        name="mine", train=(X, LABELS), validation=None, test=(X[:1], LABELS[:1]), classes=3
    )
    assert made.features == (3, 2)
    assert made.task == "classification"


def test_regression():
    made = Dataset(
        name="mine", train=(X, TARGETS), validation=(X, TARGETS), test=None, classes=None
    )
    assert made.task == "regression"


def test_a_data_set_is_shown_in_one_line():
    made = Dataset(name="mine", train=(X, LABELS), validation=None, test=(X, LABELS), classes=3)
    assert repr(made) == "Dataset(mine: 4 train, 4 test; inputs (3, 2), 3 classes)"


def test_a_data_set_does_not_change():
    made = Dataset(name="mine", train=(X, LABELS), validation=None, test=None, classes=3)
    with pytest.raises(AttributeError):
        made.classes = 4


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (X.double(), LABELS, 3, r"must be float32 of shape \(N, ...\), or .* got float64 of shape"),
        (
            X.byte(),
            LABELS,
            3,
            r"or uint8 of shape \(N, C, H, W\), or int64 tokens, got uint8 of shape \(4, 3, 2\)",
        ),
        (torch.zeros(4), LABELS, 3, r"got float32 of shape \(4,\)"),
        (X, LABELS[:3], 3, "4 inputs but 3 targets"),
        (X[:0], LABELS[:0], 3, "train part of 'mine' is empty"),
        (X / 0, LABELS, 3, "x in the train part of 'mine' holds NaN or infinity"),
        (X, LABELS.int(), 3, r"must be int64 of shape \(N,\), got int32"),
        (X, TARGETS, 3, "or give classes=None for regression"),
        (X, LABELS, 2, r"must be in 0..1, got 0..2; renumber"),
        (X, LABELS - 1, 3, "got -1..1"),
        (X, LABELS * 0 + 2, 3, "one label only, 2; a classifier needs at least two"),
        (X, LABELS, 1, "`classes` must be 2 or more"),
        (X, LABELS, None, r"float32 of shape \(N, D\) for regression, got int64"),
        (X, TARGETS[:, 0], None, r"got float32 of shape \(4,\)"),
        (X, TARGETS / 0, None, "y in the train part of 'mine' holds NaN"),
    ],
)
def test_a_bad_train_part_is_refused(x, y, classes, message):
    with pytest.raises(NescioError, match=message):
        Dataset(name="mine", train=(x, y), validation=None, test=None, classes=classes)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_other_parts_are_checked_and_fit_train(part):
    parts = {"validation": None, "test": None}
    with pytest.raises(NescioError, match=f"labels in the {part} part of 'mine' must be in 0..2"):
        Dataset(name="mine", train=(X, LABELS), **parts | {part: (X, LABELS + 1)}, classes=3)
    with pytest.raises(NescioError, match=rf"x in the {part} part .* has shape \(4, 3\), train"):
        Dataset(name="mine", train=(X, LABELS), **parts | {part: (X[..., 0], LABELS)}, classes=3)
    with pytest.raises(NescioError, match=rf"y in the {part} part .* has shape \(4, 1\), train"):
        Dataset(
            name="mine", train=(X, TARGETS), **parts | {part: (X, TARGETS[:, :1])}, classes=None
        )


def test_a_set_that_is_only_for_testing_has_no_training_samples():
    made = only_tests("mine", (X, LABELS), classes=3)
    assert made.features == (3, 2)
    assert made.train[0].shape == (0, 3, 2)
    assert made.validation is None
    with pytest.raises(NescioError, match="train part of 'mine' is empty"):
        Dataset(name="mine", train=made.train, validation=(X, LABELS), test=None, classes=3)
    with pytest.raises(NescioError, match="empty"):
        Dataset(
            name="mine", train=(X[:0, :0], LABELS[:0]), validation=None, test=(X, LABELS), classes=3
        )


def test_samples_are_held_out_by_seed():
    x, y = torch.arange(20.0)[:, None], torch.arange(20)
    train, held = hold_out((x, y), 6, seed=1)
    assert (len(train[0]), len(held[0])) == (14, 6)
    assert sorted([*train[1].tolist(), *held[1].tolist()]) == list(range(20))
    assert held[1].tolist() == sorted(held[1].tolist())
    assert train[0][:, 0].tolist() == train[1].tolist()
    assert hold_out((x, y), 6, seed=1)[1][1].tolist() == held[1].tolist()
    assert hold_out((x, y), 6, seed=2)[1][1].tolist() != held[1].tolist()
    whole, none = hold_out((x, y), 0, seed=1)
    assert whole[0] is x
    assert none is None
    with pytest.raises(NescioError, match="`validation` must be in 0..19, got 20"):
        hold_out((x, y), 20, seed=1)
    with pytest.raises(NescioError, match="`seed` must be 0 or more"):
        hold_out((x, y), 1, seed=-1)


def test_a_whole_is_split_in_tenths():
    x, y = torch.arange(25.0)[:, None], torch.arange(25)
    parts = split((x, y), seed=3)
    assert [len(part[0]) for part in parts] == [21, 2, 2]
    assert torch.cat([part[1] for part in parts]).sort().values.tolist() == list(range(25))
    assert split((x[:9], y[:9]), seed=3)[1:] == (None, None)
