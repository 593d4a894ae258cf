"""Bounds against scipy, the procedure against brute force, its promise against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest, norm

from nescio.core import NescioError
from nescio.guards import largest_coverage, upper_bound
from nescio.guards.largest_coverage import enough, fewest, first_rank


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


def brute(score, wrong, risk, confidence):
    """From the first rank upwards, errors first among ties, to the first binomial test that fails;
    then back to a score that no further sample shares."""
    pairs = sorted(zip(score.tolist(), (~wrong).tolist(), strict=True))
    errors = [not right for _, right in pairs]
    passed = first = first_rank(len(pairs), risk, confidence)
    passed -= 1
    while (
        passed < len(pairs)
        and binom.cdf(sum(errors[: passed + 1]), passed + 1, risk) <= 1 - confidence
    ):
        passed += 1
    if passed == len(pairs):
        return math.inf
    ends = [k for k in range(first + 1, passed + 1) if pairs[k - 1][0] < pairs[k][0]]
    return pairs[ends[-1] - 1][0] if ends else -math.inf


@given(st.integers(0, 2**31), st.floats(0.02, 0.5), st.floats(0.5, 0.99))
@settings(deadline=None, max_examples=60)
def test_it_goes_up_to_the_first_failure(seed, risk, confidence):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=300).round(2)  # with ties
    wrong = rng.random(300) < 0.3 / (1 + np.exp(-score))
    found = largest_coverage(score, wrong, risk=risk, confidence=confidence)
    assert found.threshold == brute(score, wrong, risk, confidence)
    if found.holds:
        own = score <= found.threshold
        assert (found.answered, found.errors) == (own.sum(), wrong[own].sum())
        assert found.bound <= risk


def test_a_later_pass_does_not_undo_a_failure():
    score, wrong = np.arange(1000.0), np.zeros(1000, bool)
    wrong[400:460] = True  # 60 of 460 are too many, 60 of 1,000 would not be
    found = largest_coverage(score, wrong, risk=0.1)
    assert first_rank(1000, 0.1, 0.95) < 400 < found.answered < 460
    assert upper_bound(60, 1000, 0.95) < 0.1


def test_the_first_test_forgives_some_errors_and_leaves_room_above_it():
    for samples, risk, errors in [(300, 0.02, 0), (1000, 0.02, 5), (5000, 0.02, 8), (800, 0.9, 66)]:
        first = first_rank(samples, risk, 0.95)
        assert binom.cdf(errors, first, risk) <= 0.05 < binom.cdf(errors + 1, first, risk)
        assert first <= 0.55 * samples
        assert fewest(risk, 0.95, errors) == first  # not one sample more than these need
    assert first_rank(100, 0.02, 0.95) == 100  # too few
    assert first_rank(160, 0.02, 0.95) == 149
    assert 9_900 < first_rank(100_000, 0.02, 0.95) <= 10_000


WORLDS = {  # the error rate of the inputs up to a failure score, which is uniform, and their errors
    "rising": (lambda u: u / 10, lambda u: u / 5),
    "falling, then rising": (  # errors of 10 % among the most confident twentieth
        lambda u: np.where(u < 0.05, 0.1, (0.005 + (u**2 - 0.05**2) / 8) / np.maximum(u, 1e-9)),
        lambda u: np.where(u < 0.05, 0.1, u / 4),
    ),
    "above the wish everywhere": (lambda u: 0.052 + 0 * u, lambda u: 0.052 + 0 * u),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_guarantee_holds_over_many_draws(name, ties):
    rng = np.random.default_rng(0)
    redraws, risk, confidence, broken = 1000, 0.05, 0.9, 0
    truth, errors = WORLDS[name]
    for _ in range(redraws):
        score = rng.random(400)
        wrong = rng.random(400) < errors(score)
        score = np.ceil(20 * score) / 20 if ties else score
        found = largest_coverage(score, wrong, risk=risk, confidence=confidence)
        broken += found.holds and truth(min(found.threshold, 1.0)) > risk
    assert binom.sf(broken - 1, redraws, 1 - confidence) > 1e-3


def test_all_samples_together_answer_more_than_with_a_fifth_spent_on_a_grid():
    """Log-odds are normal, and errors as probable as they say: 3 %; at most 2 % are wished."""
    rng, reached = np.random.default_rng(0), []
    for _ in range(100):
        score = rng.normal(-4.4466, 1.5, 1000)
        wrong = rng.random(1000) < 1 / (1 + np.exp(-score))
        found = largest_coverage(score, wrong, risk=0.02)
        reached.append(norm.cdf((found.threshold + 4.4466) / 1.5))
    assert np.mean(reached) > 0.67  # with 200 of the 1,000 spent on a grid of thresholds: 0.54


def test_where_nothing_is_answered_larger_risks_say_what_they_would_answer():
    rng = np.random.default_rng(0)
    score = rng.random(2000)
    wrong = rng.random(2000) < 0.3 * score  # up to u the error rate is 0.15 u
    found = largest_coverage(score, wrong, risk=0.002)
    assert not found.holds
    shares = dict(found.at_risks)
    assert min(shares) > 0.002
    for risk, share in shares.items():
        alone = largest_coverage(score, wrong, risk=risk)
        assert share == (alone.answered / 2000 if alone.holds else 0)
    assert 0.4 < shares[0.1] < 0.1 / 0.15 < shares[0.2] == 1
    assert largest_coverage(score, wrong, risk=0.1).at_risks == ()


def test_with_too_few_samples_it_says_how_many_would_do():
    found = largest_coverage(np.arange(20.0), np.zeros(20), risk=0.02)
    assert not found.holds
    assert found.needed == fewest(0.02, 0.95) == 149


def test_with_errors_the_number_follows_their_share():
    score, wrong = np.arange(200.0), np.arange(200) % 100 == 0  # 1 %
    found = largest_coverage(score, wrong, risk=0.02)
    assert not found.holds
    assert (found.answered, found.errors) == (149, 2)
    count, rate = found.needed * 149 / 200, 2 / 149
    assert upper_bound(rate * count, count, 0.95) <= 0.02
    assert upper_bound(rate * (count - 2), count - 2, 0.95) > 0.02


def test_no_number_of_samples_helps_a_network_that_errs_too_often():
    score, wrong = np.arange(200.0), np.arange(200) % 10 == 0
    assert largest_coverage(score, wrong, risk=0.02).needed is None
    assert enough(1000, 500, 20, risk=0.02, confidence=0.95) is None
    assert enough(100, 100, 11, risk=0.02, confidence=0.95) is None  # too few, and too many errors
    assert enough(20, 20, 1, risk=0.02, confidence=0.95) == 149  # one error may be chance


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"risk": 0.0}, "risk must lie between"),
        ({"confidence": 1.0}, "confidence must lie between"),
        ({"room": -1.0}, "room must be 0 or more"),
        ({"wrong": [0, 1]}, "one per sample"),
        ({"wrong": [0, 1, 2]}, "0 or 1"),
        ({"score": [0.0, math.nan, 1.0]}, "1 scores are NaN"),
    ],
)
def test_what_it_cannot_use_is_refused(change, match):
    given_ = {"score": [0.0, 1.0, 2.0], "wrong": [0, 0, 1], "risk": 0.5, **change}
    with pytest.raises(NescioError, match=match):
        largest_coverage(**given_)
