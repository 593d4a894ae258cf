"""Plans of calibration labels: against the guard's own threshold on simulated data."""

import math

import numpy as np
import pytest
import torch

from nescio import NescioError
from nescio.applications.active_learning import plan_guarantee
from nescio.applications.active_learning.guarantee_planning import _forgiving
from nescio.guards.largest_coverage import fewest
from nescio.guards.rules import Scored, fit_rule

RATES = {"good": lambda s: 0.6 * s**6, "medium": lambda s: 0.4 * s**3}


def draw(rng, samples, kind):
    score = rng.random(samples)
    return score, rng.random(samples) < RATES[kind](score)


def many(kind, samples=20_000):
    """Samples that show the error rates almost without noise."""
    score = (np.arange(samples) + 0.5) / samples
    debt = np.floor(np.cumsum(RATES[kind](score)))
    return score, np.diff(debt, prepend=0.0) > 0


@pytest.mark.parametrize(("kind", "coverage", "risk"), [("good", 0.6, 0.02), ("medium", 0.4, 0.02)])
def test_the_guard_gets_there_as_often_as_planned(kind, coverage, risk):
    """Brute force: the guard's rules on 120 calibration sets of the planned size, and of half."""
    found = plan_guarantee(*many(kind), risk=risk, coverage=coverage, tuning=0.0)
    rng = np.random.default_rng(1)

    def reached(samples):
        score, wrong = (torch.from_numpy(one) for one in draw(rng, samples, kind))
        samples_of = Scored(torch.from_numpy(rng.random(samples)), score, wrong)
        rule = fit_rule("", samples_of, false_alarm=0.01, risk=risk, confidence=0.95)
        return rule.coverage.holds and rule.coverage.answered >= coverage * samples

    share = np.mean([reached(int(found.needed)) for _ in range(120)])
    half = np.mean([reached(int(found.needed) // 2) for _ in range(60)])
    assert 0.68 <= share <= 0.92
    assert half < 0.65


def test_the_errors_that_are_forgiven_are_those_of_the_guard():
    begins = _forgiving(0.02, 0.95, 1000)
    assert begins.tolist() == [fewest(0.02, 0.95, errors) for errors in range(len(begins))]
    assert fewest(0.02, 0.95, len(begins)) > 1000


def test_a_part_that_tunes_comes_on_top():
    whole, tuned = (
        plan_guarantee(*many("good"), risk=0.02, coverage=0.7, tuning=part) for part in (0.0, 0.2)
    )
    assert tuned.needed == pytest.approx(whole.needed / 0.8, abs=1)


def test_an_error_rate_above_the_risk_needs_a_better_network():
    found = plan_guarantee(*many("good"), risk=0.02, coverage=0.95)
    assert math.isinf(found.needed)
    assert "no number of calibration labels" in str(found)
    score, wrong = many("good")
    rates = wrong.cumsum() / np.arange(1, len(wrong) + 1)
    assert found.largest == pytest.approx(0.99 * score[rates < 0.02].max(), abs=0.01)


def test_few_test_samples_give_a_wide_interval():
    rng = np.random.default_rng(0)
    found = plan_guarantee(*draw(rng, 100, "good"), risk=0.05, coverage=0.6)
    assert found.low <= found.needed <= found.high
    none = plan_guarantee(np.arange(60), np.zeros(60), risk=0.05, coverage=0.9)
    assert none.error == 0
    assert none.low == none.needed < none.high
    assert "drawn at random" in str(none)


def test_no_errors_need_what_the_first_test_needs():
    """With no error at all, the smallest number is that of the exact binomial test."""
    found = plan_guarantee(
        np.arange(500), np.zeros(500), risk=0.1, coverage=0.5, false_alarm=0.1, tuning=0.0
    )
    assert found.needed == math.ceil((fewest(0.1, 0.95) + 1) / 0.9)


@pytest.mark.parametrize(
    ("scores", "wrong", "options", "said"),
    [
        ([0.1, 0.2], [0], {}, "2 failure scores but 1"),
        ([0.1, math.nan], [0, 1], {}, "must not be NaN"),
        ([0.1, 0.2], [0, 2], {}, "must be 0 or 1"),
        ([0.1, 0.2], [0, 1], {"coverage": 0.995}, "is not possible"),
        ([0.1, 0.2], [0, 1], {"risk": 0.0}, "risk must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(scores, wrong, options, said):
    with pytest.raises(NescioError, match=said):
        plan_guarantee(scores, wrong, **{"risk": 0.02, "coverage": 0.5, **options})
