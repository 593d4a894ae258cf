"""Checks at the public boundary: what is converted, and what is refused with its reason."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError, as_inputs, as_targets, as_tensor

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def read_only():
    array = np.array(ROWS)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "value",
    [
        ROWS,
        np.array(ROWS),
        np.array(ROWS, dtype=np.float16),
        np.array(ROWS, dtype=np.int8),
        np.array(ROWS, dtype=np.uint16),
        np.array(ROWS, dtype=">f8"),
        np.array(ROWS, order="F"),
        np.array(ROWS[::-1])[::-1],
        read_only(),
        torch.tensor(ROWS, dtype=torch.float64, requires_grad=True),
        torch.tensor(ROWS).int(),
    ],
    ids=["list", "float64", "float16", "int8", "uint16", "big endian", "columns", "reversed",
         "read only", "with gradient", "int tensor"],
)  # fmt: skip
def test_inputs_become_floats(value):
    x = as_inputs(value)
    assert x.dtype == torch.float32
    assert x.tolist() == ROWS
    assert not x.requires_grad


def test_inputs_take_the_number_type_that_is_asked_for():
    assert as_inputs(ROWS, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"\(samples, features, ...\), got \(2,\).*x\[:, None\]"),
        (3.0, r"got \(\)"),
        (np.zeros((0, 3)), r"empty, shape \(0, 3\)"),
        (np.zeros((3, 0)), "empty"),
        ([[1.0, np.nan], [2.0, 3.0]], r"NaN or infinite values \(first in sample 0\)"),
        ([[1.0, 2.0], [2.0, np.inf]], r"first in sample 1"),
        ([[1e300, 2.0]], "infinite"),
        (np.ones((2, 2), dtype=complex), "real numbers"),
        (np.array([["a", "b"]]), "array of numbers"),
        (np.array([[1, None]], dtype=object), "array of numbers"),
        ([[1.0], [2.0, 3.0]], "array of numbers"),
        (None, "array of numbers"),
    ],
)
def test_inputs_that_cannot_be_used_are_refused(value, message):
    with pytest.raises(NescioError, match=message):
        as_inputs(value)


def test_errors_name_the_thing():
    with pytest.raises(NescioError, match="^ood must have shape"):
        as_inputs([1.0], "ood")
    with pytest.raises(NescioError, match="^labels must be"):
        as_tensor("text", "labels")


@pytest.mark.parametrize(
    "value", [[0, 2, 1], np.array([0, 2, 1], np.uint8), torch.tensor([0, 2, 1]).int()]
)
def test_labels_become_int64(value):
    y = as_targets(value, 3, task="classification")
    assert y.dtype == torch.int64
    assert y.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("value", "shape"),
    [([1.0, 2.0, 3.0], (3, 1)), ([[1.0, 2.0]] * 3, (3, 2)), ([1, 2, 3], (3, 1))],
)
def test_regression_targets_have_an_axis_of_targets(value, shape):
    y = as_targets(value, 3, task="regression")
    assert y.dtype == torch.float32
    assert y.shape == shape
    assert y.flatten()[:2].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("value", "task", "message"),
    [
        ([0, 1], "classification", r"3 inputs but targets of shape \(2,\)"),
        (1, "classification", r"3 inputs but targets of shape \(\)"),
        ([0.0, 1.0, 2.0], "classification", "integers of shape .samples,., got torch.float64"),
        ([[0, 1], [1, 0], [1, 0]], "classification", r"integers of shape"),
        ([0.0, np.nan, 1.0], "regression", "targets contain NaN"),
        ([0.0, np.inf, 1.0], "regression", "NaN or infinite"),
        (np.zeros((3, 2, 2)), "regression", r"\(samples, targets\), got \(3, 2, 2\)"),
        (["a", "b", "c"], "classification", "array of numbers"),
    ],
)
def test_targets_that_cannot_be_used_are_refused(value, task, message):
    with pytest.raises(NescioError, match=message):
        as_targets(value, 3, task=task)
