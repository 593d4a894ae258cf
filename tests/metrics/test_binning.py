"""Reliability bins and ECE against a loop over bins and against fractions."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.core.registry import metrics
from nescio.metrics import binning as binning_module
from nescio.metrics import ece, reliability
from nescio.metrics import ranking as ranking_module


def loop(confidence, correct, bins):
    total = 0.0
    for m in range(1, bins + 1):
        chosen = (confidence > (m - 1) / bins) & (confidence <= m / bins)
        if chosen.any():
            total += chosen.mean() * abs(correct[chosen].mean() - confidence[chosen].mean())
    return total


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 100])
def test_ece_agrees_with_a_loop(bins):
    rng = np.random.default_rng(bins)
    confidence = rng.uniform(0.1, 1, 500)
    correct = rng.uniform(size=500) < confidence**2
    assert ece(confidence, correct, bins=bins) == pytest.approx(loop(confidence, correct, bins))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [3, 10, 15])
def test_a_confidence_on_an_edge_belongs_to_the_bin_below(bins, kind):
    edges = (np.arange(1, bins + 1) / bins).astype(kind)
    assert reliability(edges, np.ones(bins), bins=bins).count.tolist() == [1] * bins
    above = np.nextafter(edges[:-1], kind(1))
    assert reliability(above, np.ones(bins - 1), bins=bins).count.tolist() == [0] + [1] * (bins - 1)


def exact(confidence, correct, bins):
    """The gap of each bin as a fraction, from the confidences as they are."""
    edges = (np.arange(bins + 1) / bins).astype(confidence.dtype).tolist()
    gaps = [Fraction(0)] * bins
    for sure, right in zip(confidence.tolist(), correct.tolist(), strict=True):
        place = next((m for m in range(bins) if sure <= edges[m + 1]), bins - 1)
        gaps[place] += Fraction(sure) - int(right)
    return float(sum(map(abs, gaps)) / len(confidence))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 15, 37])
def test_ece_is_exact_in_float64_also_about_the_edges(bins, kind):
    rng = np.random.default_rng(bins)
    edges = (np.arange(bins + 1) / bins).astype(kind)
    sure = np.concatenate(
        [edges, np.nextafter(edges, kind(1)), np.nextafter(edges, kind(0)), rng.random(300, kind)]
    )
    right = rng.random(len(sure)) < 0.5
    expected = exact(sure, right, bins)
    assert ece(sure, right, bins=bins) == pytest.approx(expected, rel=1e-14)
    assert reliability(sure, right, bins=bins).ece == pytest.approx(expected, rel=1e-13)


def test_the_bins_by_hand():
    made = reliability([0.0, 0.2, 0.9, 1.0], [0, 1, 1, 1], bins=4)
    assert made.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert made.count.tolist() == [2, 0, 0, 2]
    np.testing.assert_allclose(made.confidence, [0.1, np.nan, np.nan, 0.95])
    np.testing.assert_allclose(made.accuracy, [0.5, np.nan, np.nan, 1.0])
    assert made.ece == pytest.approx(0.5 * 0.4 + 0.5 * 0.05)


def test_calibrated_and_overconfident_answers():
    assert ece([0.5, 0.5], [True, False]) == 0
    assert ece(np.ones(4), np.zeros(4)) == 1


def test_averaged_float32_confidence_may_round_above_one():
    above = np.nextafter(np.float32(1), np.float32(2))
    assert reliability([above], [1]).count[-1] == 1


def test_torch_and_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    confidence, correct = rng.uniform(size=300).astype(np.float32), rng.integers(0, 2, 300)
    whole = ece(confidence, correct)
    monkeypatch.setattr(binning_module, "BLOCK", 37)
    parts = ece(torch.tensor(confidence), torch.tensor(correct, dtype=torch.bool))
    assert type(parts) is float
    assert parts == pytest.approx(whole, abs=1e-14)
    monkeypatch.setattr(ranking_module, "THREADED", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert ece(confidence, correct) == parts
    assert ece(np.repeat(confidence, 2)[::2], correct) == parts


def test_minus_zero_is_a_confidence():
    assert ece([-0.0, 0.0], [0, 0]) == 0


def test_bad_values_are_found_in_any_block(monkeypatch):
    monkeypatch.setattr(binning_module, "BLOCK", 4)
    sure = np.full(20, 0.5, np.float32)
    sure[[3, 17]] = np.nan
    with pytest.raises(NescioError, match="NaN in 2 of 20 samples"):
        ece(sure, sure > 0)


@pytest.mark.parametrize(
    ("confidence", "correct", "bins", "message"),
    [
        ([0.5, np.nan], [1, 1], 15, r"in \[0, 1\] without NaN, got NaN in 1 of 2"),
        ([0.5, np.inf], [1, 1], 15, "got 0.5 to inf"),
        ([0.5, 1.5], [1, 1], 15, "got 0.5 to 1.5; use the largest probability"),
        ([-0.5, 0.5], [1, 1], 15, "got -0.5 to 0.5"),
        ([0.5, 0.5], [1, 2], 15, "True/False or 1/0"),
        ([0.5, 0.5], [1], 15, "not of the same samples"),
        ([], [], 15, "`confidence` is empty"),
        ([[0.5]], [1], 15, "`confidence` must be one-dimensional"),
        ([0.5], [1], 0, "`bins` must be a whole number from 1 up, got 0"),
        ([0.5], [1], 2.5, "got 2.5"),
    ],
)
def test_bad_samples_are_refused(confidence, correct, bins, message):
    for function in (ece, reliability):
        with pytest.raises(NescioError, match=message):
            function(confidence, correct, bins=bins)


def test_ece_is_registered():
    assert "ece" in metrics


@pytest.mark.parametrize("bins", [15, 5001, 100_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_confidence_just_above_one_is_in_the_last_bin(bins, dtype):
    sure = np.array([1.00009, 1.0, 0.99999999], dtype)
    found = reliability(sure, np.ones(3), bins=bins)
    assert found.count[-1] == 3
    assert found.count.sum() == 3
