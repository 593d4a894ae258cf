"""Scaling multiplies what it is told to, and nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.core.registry import corruptions
from nescio.data import scaling

X = torch.arange(1.0, 13.0).reshape(2, 3, 2)


def test_one_factor_on_all_one_and_several_features():
    assert torch.equal(scaling()(X, 10.0), X * 10)
    for feature in (3, -3):
        expected = X.clone()
        expected.view(2, 6)[:, feature] *= 10
        assert torch.equal(scaling(feature)(X, 10.0), expected)
    expected = X.clone()
    expected[:, 0, 1] *= 10
    expected[:, 2, 1] *= 10
    assert torch.equal(scaling([1, -1])(X, 10.0), expected)
    assert torch.equal(scaling(np.int64(1))(X, 2.0), scaling((1,))(X, 2.0))


@pytest.mark.parametrize("factors", [[1.0, 0.0, -2.5], (1.0, 0.0, -2.5), torch.tensor([1, 0, -2])])
@pytest.mark.parametrize("features", [None, 4, [0, 5]])
def test_several_factors_stack_first(features, factors):
    shifted = scaling(features)(X, factors)
    assert shifted.shape == (3, 2, 3, 2)
    for one, factor in zip(shifted, factors, strict=True):
        assert torch.equal(one, scaling(features)(X, float(factor)))
    assert torch.equal(shifted[0], X)


@given(st.floats(0.125, 8, width=32), st.floats(0.125, 8, width=32))
@settings(max_examples=30, deadline=None)
def test_factors_multiply(first, second):
    shift = scaling([0, 2])
    x = X.double()
    torch.testing.assert_close(shift(shift(x, first), second), shift(x, first * second))


def test_inputs_are_left_alone_and_gradients_flow():
    x = X.clone().requires_grad_()
    scaling(0)(x, [2.0, 3.0]).sum().backward()
    assert torch.equal(x.detach(), X)
    assert x.grad.flatten(1).tolist() == [[5, 2, 2, 2, 2, 2]] * 2
    assert scaling()(X.double(), 2.0).dtype == torch.float64


@pytest.mark.parametrize("feature", [6, -7, [0, 6]])
def test_a_feature_out_of_range_is_refused(feature):
    with pytest.raises(
        NescioError, match=r"out of range: inputs of shape \(3, 2\) have 6 features"
    ):
        scaling(feature)(X, 2.0)


@pytest.mark.parametrize(
    ("features", "message"),
    [([], "`features` is empty"), (1.5, "whole number or several, got 1.5"), ("ab", "got 'ab'")],
)
def test_bad_features_are_refused(features, message):
    with pytest.raises(NescioError, match=message):
        scaling(features)


@pytest.mark.parametrize(
    ("x", "alpha", "message"),
    [
        (X, float("inf"), "alpha must be finite in torch.float32, got inf"),
        (X, [1.0, float("nan")], "alpha must be finite"),
        (X, 1e300, "alpha must be finite in torch.float32"),
        (X, [[1.0]], r"one-dimensional series, got shape \(1, 1\)"),
        (X, [], "one-dimensional series, got shape"),
        (X.int(), 2.0, "x must be floating-point"),
        (X[:0], 2.0, "not empty"),
        (torch.zeros(3), 2.0, r"got torch.float32 of shape \(3,\)"),
    ],
)
def test_bad_inputs_and_factors_are_refused(x, alpha, message):
    with pytest.raises(NescioError, match=message):
        scaling()(x, alpha)


def test_scaling_is_registered():
    assert corruptions["scaling"] is scaling
