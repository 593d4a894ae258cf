"""Shares and means of two audits: scipy, brute force and simulation are the references."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, chi2_contingency, fisher_exact, ttest_ind

from nescio import NescioError, metrics
from nescio.metrics.share_tests import _tango, _variance


def outcomes(more, fewer, both, neither):
    first = [1] * more + [0] * fewer + [1] * both + [0] * neither
    second = [0] * more + [1] * fewer + [1] * both + [0] * neither
    return np.array(first), np.array(second)


@pytest.mark.parametrize(("more", "fewer"), [(10, 3), (3, 10), (0, 6), (5, 5), (0, 0), (40, 17)])
def test_the_paired_p_is_that_of_the_binomial_test(more, fewer):
    found = metrics.paired_share_test(*outcomes(more, fewer, 50, 7))
    wanted = 1.0 if more + fewer == 0 else binomtest(more, more + fewer).pvalue
    assert found.p == pytest.approx(wanted)
    assert found.value == pytest.approx((more - fewer) / (more + fewer + 57))
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("more", "fewer", "samples"), [(10, 3, 50), (0, 5, 40), (7, 7, 100)])
@pytest.mark.parametrize("gap", [-0.3, -0.05, 0.02, 0.2])
def test_the_variance_is_that_of_the_most_likely_shares(more, fewer, samples, gap):
    counts = (more, fewer, samples - more - fewer)

    def loss(least):
        shares = (least + gap, least, 1 - 2 * least - gap)
        return -sum(k * math.log(max(p, 1e-300)) for k, p in zip(counts, shares, strict=True) if k)

    bounds = (max(0, -gap), (1 - gap) / 2)
    best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    assert _variance(gap, *counts[:2], samples) == pytest.approx(
        2 * best + gap * (1 - gap), abs=1e-6
    )


def test_the_ends_of_the_interval_are_where_the_score_test_begins_to_reject():
    low, high = _tango(10, 3, 50, 1.96)
    for end, z in ((low, 1.96), (high, -1.96)):
        score = (10 - 3 - 50 * end) / math.sqrt(50 * _variance(end, 10, 3, 50))
        assert score == pytest.approx(z, abs=1e-9)


def test_the_paired_interval_holds_the_truth_as_often_as_it_says():
    draws = np.random.default_rng(0).multinomial(200, [0.03, 0.06, 0.91], size=1500)
    ends = [_tango(int(more), int(fewer), 200, 1.959964) for more, fewer, _ in draws]
    held = np.mean([low <= -0.03 <= high for low, high in ends])
    assert abs(held - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 1500)  # 0.017


def test_pairing_tells_what_separate_samples_do_not():
    first, second = outcomes(9, 0, 80, 11)
    assert metrics.paired_share_test(first, second).p == pytest.approx(2 * 0.5**9)
    assert metrics.separate_share_test(first, second).p > 0.1


def test_separate_shares_are_compared_by_fisher_and_newcombe():
    first, second = np.repeat([1, 0], [56, 14]), np.repeat([1, 0], [48, 32])
    found = metrics.separate_share_test(first, second)
    assert found.p == pytest.approx(fisher_exact([[56, 14], [48, 32]])[1])
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)  # Newcombe, 1998
    assert chi2_contingency([[56, 14], [48, 32]])[1] < 0.05 > found.p


def test_separate_means_are_compared_by_welch():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1, 60), rng.normal(0, 2, 90)
    found, wanted = (
        metrics.separate_mean_test(first, second),
        ttest_ind(first, second, equal_var=False),
    )
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.low == pytest.approx(wanted.confidence_interval(0.95).low)
    assert metrics.separate_mean_test([1.0, 1.0], [1.0, 1.0]).p == 1
    assert metrics.separate_mean_test([1.0], [2.0]).p == 1  # one sample shows nothing


def test_a_metric_of_separate_samples_is_drawn_on_each_side():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 200), rng.normal(0, 1, 300)
    found = metrics.separate_metric_test(np.mean, (first,), (second,), resamples=400)
    exact = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.04)


def test_other_values_and_lengths_are_refused():
    with pytest.raises(NescioError, match="the same samples, got 2 and 3"):
        metrics.paired_share_test([0, 1], [0, 1, 1])
    with pytest.raises(NescioError, match="0 or 1"):
        metrics.separate_share_test([0, 2], [0, 1])
    with pytest.raises(NescioError, match="is empty"):
        metrics.paired_share_test([], [])
