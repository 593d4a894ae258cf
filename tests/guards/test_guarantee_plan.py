"""The planned number of samples against the procedure itself, run on fresh draws."""

import math

import numpy as np
import pytest

from nescio.core import NescioError, from_json, to_json
from nescio.guards import GuaranteePlan, guarantee_plan, largest_coverage
from nescio.guards.guarantee_plan import POWER, _Walk
from nescio.guards.largest_coverage import fewest

UNIFORM = np.linspace(0.001, 1, 1000) ** 2  # errors of probability 2 x mean x score


def drawn(rng, samples, mean):
    score = rng.random(samples)
    return score, rng.random(samples) < 2 * mean * score


def walk(**wish):
    return _Walk(confidence=0.95, shape=UNIFORM, seed=0, **wish)


def test_the_ranks_that_forgive_errors_are_those_of_the_exact_bound():
    least = walk(risk=0.03, coverage=0.9).least
    assert [least[e] for e in (0, 1, 7, 40)] == [fewest(0.03, 0.95, e) for e in (0, 1, 7, 40)]


@pytest.mark.parametrize(("samples", "coverage"), [(150, 1.0), (300, 0.9), (600, 0.7)])
def test_simulated_walks_arrive_as_often_as_the_procedure_does(samples, coverage):
    rng, draws, mean = np.random.default_rng(samples), 300, 0.05
    reached = [
        found.holds and found.answered >= coverage * samples
        for found in (largest_coverage(*drawn(rng, samples, mean), risk=0.1) for _ in range(draws))
    ]
    predicted = walk(risk=0.1, coverage=coverage).arriving(samples, mean * coverage)
    assert np.mean(reached) == pytest.approx(predicted, abs=4 * math.sqrt(0.25 / draws))


def test_a_plan_is_kept_by_the_procedure():
    rng = np.random.default_rng(3)
    plan = guarantee_plan(*drawn(rng, 20_000, 0.05), risk=0.1, coverage=0.9)
    assert plan.low <= plan.needed <= plan.high
    runs = [largest_coverage(*drawn(rng, plan.needed, 0.05), risk=0.1) for _ in range(200)]
    reached = np.mean([run.holds and run.answered >= 0.9 * plan.needed for run in runs])
    assert reached == pytest.approx(POWER, abs=4 * math.sqrt(0.16 / 200))


def test_it_takes_more_samples_for_a_smaller_risk_and_a_larger_coverage():
    samples = drawn(np.random.default_rng(4), 3000, 0.02)
    by_risk = [guarantee_plan(*samples, risk=r, coverage=0.8).needed for r in (0.1, 0.05, 0.03)]
    by_coverage = [guarantee_plan(*samples, risk=0.05, coverage=c).needed for c in (0.5, 0.8, 1.0)]
    assert by_risk == sorted(by_risk)
    assert by_coverage[1:] == sorted(by_coverage[1:])


def test_no_number_is_enough_where_the_errors_are_too_many():
    plan = guarantee_plan(*drawn(np.random.default_rng(5), 2000, 0.1), risk=0.05, coverage=0.9)
    assert plan.needed is None is plan.high
    assert plan.observed.low > 0.05


def test_samples_without_errors_do_not_mean_that_there_are_none():
    plan = guarantee_plan(np.arange(100.0), np.zeros(100), risk=0.02, coverage=0.9)
    assert plan.errors == 0
    assert plan.observed.value == pytest.approx(0.5 / 91)
    assert plan.needed > fewest(0.02, 0.95) / 0.9


def test_a_plan_is_written_and_read():
    plan = guarantee_plan([0.1, 0.2], [0, 1], risk=0.1, coverage=1.0)
    assert from_json(GuaranteePlan, to_json(plan)) == plan


def test_what_does_not_fit_is_said():
    with pytest.raises(NescioError, match="coverage must lie above 0"):
        guarantee_plan([0.1], [0], risk=0.1, coverage=0.0)
    with pytest.raises(NescioError, match="scores are NaN"):
        guarantee_plan([np.nan], [0], risk=0.1, coverage=1.0)
    with pytest.raises(NescioError, match="1 scores but 2 answers"):
        guarantee_plan([0.1], [0, 1], risk=0.1, coverage=1.0)
