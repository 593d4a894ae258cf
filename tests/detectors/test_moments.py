"""Means and covariances against float64 by hand, and Ledoit-Wolf against scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf as oracle

from nescio.core import NescioError
from nescio.detectors.mahalanobis import (
    blocks,
    classes,
    ledoit_wolf,
    moments,
    shrink,
    shrunk,
    whitened,
    whitening,
)


def by_hand(features, labels):
    x = features.double().numpy()
    y = labels.numpy()
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    apart = x - means[np.unique(y, return_inverse=True)[1]]
    return means, apart.T @ apart / len(x), np.cov(x.T, bias=True)


def some(samples=300, width=20, seed=0, dtype=torch.float32):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (samples,), generator=rng) * 3  # gaps
    centers = 5 * torch.randn(10, width, generator=rng, dtype=dtype)
    return centers[labels] + torch.randn(samples, width, generator=rng, dtype=dtype), labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("numbers", [1, 1 << 21])
def test_moments_are_those_by_hand(monkeypatch, dtype, numbers):
    monkeypatch.setattr(blocks, "__defaults__", (numbers,))
    features, labels = some(samples=700, width=150, dtype=dtype)  # more than one panel
    found = moments(features, *classes(labels))
    means, within, total = by_hand(features, labels)
    close = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 2e-5}
    np.testing.assert_allclose(found.means, means, **close)
    np.testing.assert_allclose(found.within, within, **close)
    np.testing.assert_allclose(found.total, total, **close)
    np.testing.assert_allclose(found.mean, features.double().mean(0), **close)


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_moments_of_any_size(seed, samples, width):
    features, labels = some(samples, width, seed, torch.float64)
    means, within, _ = by_hand(features, labels)
    found = moments(features, *classes(labels))
    np.testing.assert_allclose(found.means, means, atol=1e-11)
    np.testing.assert_allclose(found.within, within, atol=1e-11)


def test_nothing_cancels_far_from_the_origin_and_between_far_classes():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(4000) % 4
    features = torch.randn(4000, 8, generator=rng) + 1000.0 * (1 + labels[:, None])
    _, within, _ = by_hand(features, labels)
    np.testing.assert_allclose(moments(features, labels, 4).within, within, atol=1e-5)


def test_half_precision_is_summed_in_single():
    features, labels = some()
    half = features.half()
    found = moments(half, *classes(labels))
    np.testing.assert_allclose(found.within, by_hand(half.float(), labels)[1], atol=2e-5)


def test_whitening_makes_the_covariance_the_identity():
    features, labels = some(dtype=torch.float64)
    covariance = moments(features, *classes(labels)).within
    whiten = whitening(covariance)
    np.testing.assert_allclose(whiten.T @ covariance @ whiten, np.eye(20), atol=1e-12)


@pytest.mark.parametrize("width", [1, 128, 129, 300])
def test_a_triangular_product_leaves_out_zeros(width):
    rows = torch.randn(7, width, dtype=torch.float64)
    whiten = torch.randn(width, width, dtype=torch.float64).triu()
    torch.testing.assert_close(whitened(rows, whiten), rows @ whiten)


def test_shrinking_keeps_the_trace():
    covariance = torch.diag(torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64))
    expected = 0.75 * covariance.diagonal() + 0.25 * 4 / 3
    torch.testing.assert_close(shrink(covariance, 0.25).diagonal(), expected)
    assert shrink(covariance, 0.25).trace() == pytest.approx(4)


def test_ledoit_wolf_is_that_of_scikit_learn():
    features, labels = some(samples=60, width=40, dtype=torch.float64)
    places, count = classes(labels)
    found = moments(features, places, count)
    centered = (features - found.means[places]).numpy()
    expected = oracle(centered, assume_centered=True)[1]
    assert 0.05 < expected < 1
    assert ledoit_wolf(features, places, found) == pytest.approx(expected, rel=1e-10)
    assert shrunk("ledoit_wolf", features, places, found) == pytest.approx(expected, rel=1e-10)


def test_ledoit_wolf_of_one_feature_is_within_bounds():
    features, labels = some(samples=30, width=1, dtype=torch.float64)
    places, count = classes(labels)
    assert 0 <= ledoit_wolf(features, places, moments(features, places, count)) <= 1


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (torch.zeros(3, 3), "do not vary within the classes"),
        (torch.diag(torch.tensor([1.0, 0.0])), "singular.*raise shrinkage"),
        (torch.ones(2, 2), "singular.*raise shrinkage"),
    ],
    ids=["none", "constant", "copies"],
)
def test_a_covariance_that_cannot_be_inverted(covariance, message):
    with pytest.raises(NescioError, match=message):
        whitening(covariance.double())


def test_a_wrong_shrinkage():
    with pytest.raises(NescioError, match=r"in \[0, 1\], got 2"):
        shrink(torch.eye(2), 2)
    with pytest.raises(NescioError, match="a number or 'ledoit_wolf', got 'oas'"):
        shrunk("oas", torch.eye(2), torch.arange(2), moments(torch.eye(2)))


def test_squares_that_overflow():
    with pytest.raises(NescioError, match="squares overflow"):
        moments(torch.tensor([[1e30], [-1e30]]))
