"""DeLong's variance against all pairs counted one by one, exact samples, and coverage."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from nescio.core import NescioError
from nescio.metrics import Interval, auroc, delong_covariance, delong_interval
from nescio.metrics import paired as module

scores = st.lists(st.integers(-4, 4), min_size=2, max_size=10)


def every_pair(detectors):
    """AUROCs and their covariance from the (N, M) tables of pairs."""
    tables = [
        (np.asarray(b, float)[None] > np.asarray(a, float)[:, None])
        + 0.5 * (np.asarray(b, float)[None] == np.asarray(a, float)[:, None])
        for a, b in detectors
    ]
    samples, others = tables[0].shape
    in_dist = np.cov(np.array([table.mean(1) for table in tables]), ddof=1)
    ood = np.cov(np.array([table.mean(0) for table in tables]), ddof=1)
    areas = np.array([table.mean() for table in tables])
    return areas, np.atleast_2d(in_dist / samples + ood / others)


def three(seed=0, decimals=1, in_dist=70, ood=45):
    """Three detectors of the same samples, with ties."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, in_dist), rng.normal(1, 1.5, ood)
    noisy = [(a + s * rng.normal(size=in_dist), b + s * rng.normal(size=ood)) for s in (0, 1, 2)]
    return [(x.round(decimals), y.round(decimals)) for x, y in noisy]


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_the_covariance_is_that_of_all_pairs(decimals):
    detectors = three(decimals=decimals)
    areas, covariance = delong_covariance(detectors)
    expected_areas, expected = every_pair(detectors)
    np.testing.assert_allclose(areas, expected_areas, rtol=1e-13)
    np.testing.assert_allclose(covariance, expected, rtol=1e-11)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_any_variance_is_that_of_all_pairs(in_dist, ood):
    _, expected = every_pair([(in_dist, ood)])
    found = delong_interval(in_dist, ood, level=0.6826894921370859)  # one standard error
    margin = math.sqrt(expected[0, 0])
    area = auroc(in_dist, ood)
    assert found.value == area
    assert found.low == pytest.approx(max(0, area - margin), abs=1e-9)
    assert found.high == pytest.approx(min(1, area + margin), abs=1e-9)


def test_the_logit_interval_is_normal_in_log_odds():
    in_dist, ood = three()[1]
    area, variance = (part.item() for part in every_pair([(in_dist, ood)]))
    found = delong_interval(in_dist, ood, level=0.9, logit=True)
    half = stats.norm.ppf(0.95) * math.sqrt(variance) / (area * (1 - area))
    expected = special.expit(special.logit(area) + np.array([-half, half]))
    assert [found.low, found.high] == pytest.approx(expected.tolist(), rel=1e-12)


def test_only_the_order_matters_and_blocks_do_not(monkeypatch):
    detectors = three()
    whole = delong_covariance(detectors)
    monkeypatch.setattr(module, "BLOCK", 7)
    parts = delong_covariance([(np.exp(a), torch.tensor(np.exp(b))) for a, b in detectors])
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-12)


def test_the_same_samples_in_another_order_give_the_same_covariance():
    detectors = three()
    rng = np.random.default_rng(9)
    rows, columns = rng.permutation(70), rng.permutation(45)
    moved = delong_covariance([(a[rows], b[columns]) for a, b in detectors])
    np.testing.assert_allclose(moved[1], delong_covariance(detectors)[1], rtol=1e-12)


@pytest.mark.parametrize("logit", [False, True])
def test_where_nothing_varies_the_interval_is_a_point(logit):
    assert delong_interval([0, 1], [2, 3], logit=logit) == Interval(1.0, 1.0, 1.0)
    assert delong_interval([1, 1, 1], [1, 1], logit=logit) == Interval(0.5, 0.5, 0.5)
    assert delong_interval([2, 3], [0, -np.inf], logit=logit) == Interval(0.0, 0.0, 0.0)


@pytest.mark.parametrize("logit", [False, True])
def test_intervals_cover_the_truth_about_as_often_as_they_say(logit):
    truth = stats.norm.cdf(1 / np.sqrt(2))
    rng = np.random.default_rng(3)
    rounds, covered = 600, 0
    for _ in range(rounds):
        found = delong_interval(rng.normal(0, 1, 60), rng.normal(1, 1, 50), level=0.9, logit=logit)
        covered += found.low <= truth <= found.high
    assert 0.86 <= covered / rounds <= 0.94  # three standard errors of 0.012


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: delong_interval([0.0], [1.0, 2.0]), "two or more samples per side, got 1 in_dist"),
        (lambda: delong_interval([0.0, 1.0], [1.0]), "got 1 ood"),
        (lambda: delong_interval([0.0, np.nan], [1.0, 2.0]), "NaN in 1 of 2"),
        (lambda: delong_interval([], [1.0]), "`in_dist` is empty"),
        (lambda: delong_interval([0.0, 1.0], [1.0, 2.0], level=0.0), "`level` must be between"),
        (
            lambda: delong_covariance([([0, 1], [1, 2]), ([0, 1], [1, 2, 3])]),
            r"same samples in the same order, got \(2, 2\) and \(2, 3\)",
        ),
        (lambda: delong_covariance([]), "no detectors"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(NescioError, match=said):
        call()
