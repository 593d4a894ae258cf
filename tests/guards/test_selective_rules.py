"""Bounds against scipy, the procedure against brute force, its promise against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from nescio.core import NescioError
from nescio.guards import coverages, largest_coverage, upper_bound
from nescio.guards.rules import enough, fewest


@given(st.integers(1, 500), st.data(), st.sampled_from([0.9, 0.95, 0.999]))
@settings(deadline=None, max_examples=60)
def test_the_bound_is_that_of_clopper_and_pearson(samples, data, confidence):
    errors = data.draw(st.integers(0, samples))
    bound = float(upper_bound(errors, samples, confidence))
    if errors == samples:
        assert bound == 1
    else:
        assert bound == pytest.approx(beta.ppf(confidence, errors + 1, samples - errors), rel=1e-9)
        exact = binomtest(errors, samples).proportion_ci(2 * confidence - 1, method="exact").high
        assert bound == pytest.approx(exact, rel=1e-6)


def test_without_samples_nothing_is_known():
    assert upper_bound(0, 0, 0.95) == 1


@pytest.mark.parametrize(("risk", "confidence"), [(0.02, 0.95), (0.5, 0.9), (0.002, 0.99)])
def test_the_fewest_samples_are_those_where_no_error_is_enough(risk, confidence):
    count = fewest(risk, confidence)
    assert binom.cdf(0, count, risk) <= 1 - confidence + 1e-12
    assert binom.cdf(0, count - 1, risk) > 1 - confidence
    assert count == math.ceil(math.log(1 - confidence) / math.log(1 - risk))


def brute(score, wrong, grid, risk, confidence):
    """The last threshold before the first whose bound exceeds the risk, by the binomial law."""
    chosen = -math.inf
    for threshold in grid:
        own = score <= threshold
        if binom.cdf(wrong[own].sum(), own.sum(), risk) > 1 - confidence:
            break
        chosen = threshold
    return chosen


@given(st.integers(0, 2**31), st.floats(0.02, 0.5), st.floats(0.5, 0.99))
@settings(deadline=None, max_examples=60)
def test_it_goes_up_to_the_first_failure(seed, risk, confidence):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=300).round(1)  # with ties
    wrong = rng.random(300) < 0.3 / (1 + np.exp(-score))
    grid = np.append(np.sort(rng.normal(size=20)), math.inf)
    found = largest_coverage(score, wrong, risk=risk, confidence=confidence, grid=grid)
    assert found.threshold == brute(score, wrong, grid, risk, confidence)
    if found.holds:
        own = score <= found.threshold
        assert (found.answered, found.errors) == (own.sum(), wrong[own].sum())
        assert found.bound <= risk


def test_a_later_pass_does_not_undo_a_failure():
    score, wrong = np.arange(1000.0), np.zeros(1000, bool)
    wrong[100:120] = True  # 20 of 200 are too many, 20 of 1000 are not
    found = largest_coverage(score, wrong, risk=0.05, grid=[99.0, 199.0, math.inf])
    assert found.threshold == 99
    assert largest_coverage(score, wrong, risk=0.05, grid=[math.inf]).threshold == math.inf


def test_the_guarantee_holds_over_many_draws():
    """Scores are uniform and wrong with probability u / 5: below c the risk is c / 10."""
    rng = np.random.default_rng(0)
    redraws, risk, confidence, broken, share = 1000, 0.05, 0.9, 0, 0.0
    grid = coverages(rng.random(200), samples=400, risk=risk, confidence=confidence)
    for _ in range(redraws):
        score = rng.random(400)
        wrong = rng.random(400) < score / 5
        found = largest_coverage(score, wrong, risk=risk, confidence=confidence, grid=grid)
        reached = min(max(found.threshold, 0), 1)
        broken += reached / 10 > risk
        share += reached / redraws
    assert binom.sf(broken - 1, redraws, 1 - confidence) > 1e-3
    assert share > 0.1  # of 0.5 that could be answered


def test_the_grid_starts_where_no_error_would_be_enough():
    rng = np.random.default_rng(1)
    tuning = rng.normal(size=1000)
    grid = coverages(tuning, samples=2000, risk=0.02, confidence=0.95)
    expected = 2000 * (tuning <= grid[0]).mean()
    assert fewest(0.02, 0.95) <= expected < 2 * fewest(0.02, 0.95)
    assert grid[-1] == math.inf
    assert (np.diff(grid) > 0).all()
    short = [(rng.normal(size=2000) <= grid[0]).sum() < fewest(0.02, 0.95) for _ in range(300)]
    assert np.mean(short) < 0.05


def test_with_too_few_samples_it_says_how_many_would_do():
    found = largest_coverage(np.arange(20.0), np.zeros(20), risk=0.02, grid=[math.inf])
    assert not found.holds
    assert found.needed == fewest(0.02, 0.95) == 149


def test_with_errors_the_number_follows_their_share():
    score, wrong = np.arange(200.0), np.arange(200) % 100 == 0  # 1 %
    found = largest_coverage(score, wrong, risk=0.02, grid=[math.inf])
    assert not found.holds
    assert upper_bound(0.01 * found.needed, found.needed, 0.95) <= 0.02
    assert upper_bound(0.01 * (found.needed - 2), found.needed - 2, 0.95) > 0.02


def test_no_number_of_samples_helps_a_network_that_errs_too_often():
    score, wrong = np.arange(200.0), np.arange(200) % 10 == 0
    assert largest_coverage(score, wrong, risk=0.02, grid=[math.inf]).needed is None
    assert enough(1000, 500, 20, risk=0.02, confidence=0.95) is None
    assert enough(100, 100, 11, risk=0.02, confidence=0.95) is None  # too few, and too many errors
    assert enough(20, 20, 1, risk=0.02, confidence=0.95) == 149  # one error may be chance


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"risk": 0.0}, "risk must lie between"),
        ({"confidence": 1.0}, "confidence must lie between"),
        ({"grid": [2.0, 1.0]}, "ascending"),
        ({"grid": []}, "ascending"),
        ({"wrong": [0, 1]}, "one per sample"),
        ({"wrong": [0, 1, 2]}, "0 or 1"),
        ({"score": [0.0, math.nan, 1.0]}, "1 scores are NaN"),
    ],
)
def test_what_it_cannot_use_is_refused(change, match):
    given_ = {"score": [0.0, 1.0, 2.0], "wrong": [0, 0, 1], "risk": 0.5, "grid": [1.0], **change}
    with pytest.raises(NescioError, match=match):
        largest_coverage(**given_)
