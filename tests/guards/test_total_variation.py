"""The theorem against linear programs, the budget against simulated samples and worst shifts."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import beta

from nescio.core import NescioError, from_json, to_json
from nescio.guards import ShiftBudget, shift_budget

# One distribution of (right answer, wrong answer, abstained right, abstained wrong).
P = np.array([0.88, 0.004, 0.076, 0.04])
COVERAGE, RISK = P[:2].sum(), P[1] / P[:2].sum()


def worst_risk(p, distance):
    """The largest risk of all distributions within a distance, by bisection over linear programs.

    Variables: what each cell gains and loses; the gains and the losses sum to the distance at most.
    """
    low, high = 0.0, 1.0
    cells = len(p)
    for _ in range(40):
        risk = (low + high) / 2
        f = np.zeros(cells)
        f[0], f[1] = -risk, 1 - risk
        rows = np.array([[1] * cells + [0] * cells, [0] * cells + [1] * cells])
        found = linprog(
            -np.concatenate([f, -f]), A_ub=rows, b_ub=[distance] * 2,
            A_eq=np.array([[1] * cells + [-1] * cells]), b_eq=[0],
            bounds=[(0, None)] * cells + [(0, mass) for mass in p],
        )  # fmt: skip
        reached = f @ p - found.fun > 1e-12
        low, high = (risk, high) if reached else (low, risk)
    return low


@pytest.mark.parametrize("distance", [0.001, 0.01, 0.05, 0.3])
def test_no_distribution_within_the_distance_has_a_larger_risk_and_one_has_this(distance):
    assert worst_risk(P, distance) == pytest.approx(RISK + distance / COVERAGE, abs=1e-6)


def test_random_distributions_within_the_distance_keep_the_bound():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        q = rng.dirichlet(P * 200)
        distance = np.abs(q - P).sum() / 2
        assert q[1] / q[:2].sum() <= RISK + distance / COVERAGE + 1e-12


@pytest.mark.parametrize("samples", [500, 4000])
def test_under_the_worst_change_the_guarantee_fails_as_rarely_as_it_says(samples):
    rng, draws, wish = np.random.default_rng(samples), 2000, 0.02
    broken = over = 0
    for right, wrong, *_ in rng.multinomial(samples, P, size=draws).tolist():
        found = shift_budget(right + wrong, wrong, samples, risk=wish)
        moved = min(found.distance, P[0])  # from right answers to wrong ones
        broken += found.distance > 0 and (P[1] + moved) / COVERAGE > wish
        over += any(RISK + one.distance / COVERAGE > one.risk for one in found.at)
    assert max(broken, over) / draws < 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)


def test_inputs_of_an_ood_set_may_be_mixed_in_up_to_the_share():
    rng, draws, answered = np.random.default_rng(7), 1000, 0.1
    broken = 0
    for right, wrong, *_ in rng.multinomial(3000, P, size=draws).tolist():
        letters = {"letters": (int(rng.binomial(400, answered)), 400)}
        found = shift_budget(right + wrong, wrong, 3000, risk=0.02, ood=letters)
        share = found.ood["letters"].share
        errors = (1 - share) * P[1] + share * answered  # every answer to a letter is wrong
        broken += errors / ((1 - share) * COVERAGE + share * answered) > 0.02
        assert share >= found.distance  # the worst of all sets is answered always
    assert broken / draws < 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)


def test_the_budget_is_that_of_the_exact_bounds():
    found = shift_budget(900, 2, 1000, risk=0.02, false_alarm=0.01)
    coverage, risk = beta.ppf(0.005, 900, 101), beta.ppf(0.96, 3, 898)
    assert found.distance == pytest.approx(coverage * (0.02 - risk))
    assert [one.false_alarm for one in found.at[:2]] == pytest.approx([0.01, 0.011])
    assert [one.coverage for one in found.at[:2]] == pytest.approx([coverage, coverage - 0.001])


@pytest.mark.parametrize(("answered", "errors"), [(0, 0), (900, 18), (2, 0)])
def test_where_the_samples_show_no_risk_nothing_is_survived(answered, errors):
    found = shift_budget(answered, errors, 1000, risk=0.02, ood={"z": (0, 10)})
    assert found.distance == 0 == found.ood["z"].share
    assert found.at[0].risk > 0.02


def test_a_budget_is_written_and_read():
    found = shift_budget(900, 2, 1000, risk=0.02, ood={"z": (1, 10)})
    assert from_json(ShiftBudget, to_json(found)) == found


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(NescioError, match="errors <= answered <= samples"):
        shift_budget(10, 11, 100, risk=0.02)
    with pytest.raises(NescioError, match="got 3 of 2"):
        shift_budget(10, 1, 100, risk=0.02, ood={"z": (3, 2)})
