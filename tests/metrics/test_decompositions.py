"""Parts of the Brier score and the NLL against loops over the groups."""

import math

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.metrics import brier, brier_decomposition, nll, nll_decomposition


def problem(samples=400, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((samples, classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    flat = np.exp(0.5 * logits) / np.exp(0.5 * logits).sum(1, keepdims=True)
    return probs, np.array([rng.choice(classes, p=row) for row in flat])


def groups(probs, bins):
    """Rows of each predicted class and each tenth of the confidences."""
    top, sure = probs.argmax(1), probs.max(1)
    for part in np.array_split(np.argsort(sure), bins):
        for c in range(probs.shape[1]):
            rows = part[top[part] == c]
            if len(rows):
                yield rows


def test_the_parts_of_the_brier_score_by_loops():
    probs, labels = problem()
    truth = np.eye(4)[labels]
    overall = truth.mean(0)
    parts = {"reliability": 0.0, "resolution": 0.0, "within": 0.0}
    for rows in groups(probs, 8):
        p, q = probs[rows].mean(0), truth[rows].mean(0)
        weight = len(rows) / len(probs)
        parts["reliability"] += weight * ((p - q) ** 2).sum()
        parts["resolution"] += weight * ((q - overall) ** 2).sum()
        near, apart = probs[rows] - p, truth[rows] - q
        parts["within"] += (near**2).sum() / 400 - 2 * (near * apart).sum() / 400
    found = brier_decomposition(probs, labels, bins=8)
    assert found.score == brier(probs, labels)
    assert found.uncertainty == pytest.approx((overall * (1 - overall)).sum())
    for name, value in parts.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9), name


def test_the_parts_of_the_nll_by_loops():
    probs, labels = problem()
    truth = np.eye(4)[labels]
    overall = truth.mean(0)

    def entropy(q):
        return -sum(x * math.log(x) for x in q if x > 0)

    def divergence(q, p):
        return sum(x * math.log(x / y) for x, y in zip(q, p, strict=True) if x > 0)

    reliability = resolution = within = 0.0
    for rows in groups(probs, 8):
        p, q = probs[rows].mean(0), truth[rows].mean(0)
        weight = len(rows) / len(probs)
        reliability += weight * divergence(q, p)
        resolution += weight * divergence(q, overall)
        within += (np.log(p)[labels[rows]] - np.log(probs[rows, labels[rows]])).sum() / 400
    found = nll_decomposition(torch.from_numpy(probs), torch.from_numpy(labels), bins=8)
    assert found.score == nll(probs, labels)
    assert found.uncertainty == pytest.approx(entropy(overall))
    assert found.reliability == pytest.approx(reliability, rel=1e-9)
    assert found.resolution == pytest.approx(resolution, rel=1e-9)
    assert found.within == pytest.approx(within, rel=1e-9)
    assert found.refinement == found.uncertainty - found.resolution


@pytest.mark.parametrize("decompose", [brier_decomposition, nll_decomposition])
def test_two_answers_that_are_right_as_often_as_they_say(decompose):
    """0.8 and 0.3 for class 1, exact shares: no miscalibration, nothing within groups."""
    probs = np.array([[0.2, 0.8]] * 10 + [[0.7, 0.3]] * 10)
    labels = np.array([1] * 8 + [0] * 2 + [1] * 3 + [0] * 7)
    found = decompose(probs, labels)
    assert found.reliability == pytest.approx(0, abs=1e-12)
    assert found.within == pytest.approx(0, abs=1e-12)
    assert found.refinement == pytest.approx(found.score)
    assert found.resolution > 0


@pytest.mark.parametrize("decompose", [brier_decomposition, nll_decomposition])
def test_a_temperature_moves_reliability_and_not_resolution(decompose):
    probs, labels = problem(samples=4000)
    cooler = np.sqrt(probs) / np.sqrt(probs).sum(1, keepdims=True)  # the temperature is 2
    before, after = (decompose(p, labels, bins=10) for p in (probs, cooler))
    assert after.uncertainty == before.uncertainty
    assert after.reliability < 0.3 * before.reliability
    assert after.resolution == pytest.approx(before.resolution, rel=0.1)


@pytest.mark.parametrize("decompose", [brier_decomposition, nll_decomposition])
def test_bad_input_is_refused(decompose):
    probs, labels = problem(samples=5)
    with pytest.raises(NescioError, match="`bins`"):
        decompose(probs, labels, bins=0)
    with pytest.raises(NescioError, match="sum to 1"):
        decompose(0.9 * probs, labels)
