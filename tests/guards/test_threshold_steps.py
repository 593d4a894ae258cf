"""Steps against counting, their bounds against the known risk of simulated scores."""

import math

import numpy as np
import pytest
from scipy.stats import beta

from nescio.core import NescioError, from_json, to_json
from nescio.guards import Thresholds, threshold_steps


def drawn(rng, samples=800, rate=0.2):
    """Uniform scores, wrong with probability rate x score: the risk below t is rate x t / 2."""
    score = rng.random(samples)
    return score, rng.random(samples) < rate * score


def test_every_step_counts_what_lies_below_its_threshold():
    rng = np.random.default_rng(1)
    score, wrong = drawn(rng)
    score = score.round(2)  # with ties
    called, letters = rng.random(len(score)) < 0.02, rng.random(90) + 0.4
    far = letters > 1.3
    found = threshold_steps(
        score, wrong, called_ood=called, ood={"letters": (letters, far)}, own=0.77, first=0.01
    )
    assert len(found.steps) == 41
    assert (found.samples, found.called_ood, found.ood) == (800, called.sum(), {"letters": 90})
    for index, step in enumerate(found.steps):
        everything = math.inf if index < 20 else -math.inf
        limit = everything if step.threshold is None else step.threshold
        answered = (score < limit) & ~called
        assert (step.answered, step.errors) == (answered.sum(), (answered & wrong).sum())
        assert step.coverage.value == pytest.approx(answered.mean())
        assert step.false_alarms.value == pytest.approx((~answered)[~wrong].mean())
        assert step.abstained["letters"] == pytest.approx(((letters >= limit) | far).mean())
    own = found.steps[found.own]
    assert own.answered == ((score <= 0.77) & ~called).sum()  # the guard answers up to its own
    assert [step.answered for step in found.steps] == sorted(
        (step.answered for step in found.steps), reverse=True
    )


def test_the_bound_of_a_step_is_exact_with_a_41st_of_the_probability():
    found = threshold_steps(*drawn(np.random.default_rng(2)))
    step = found.steps[12]
    exact = beta.ppf(1 - 0.05 / 41, step.errors + 1, step.answered - step.errors)
    assert step.bound == pytest.approx(exact)
    assert step.risk.low <= step.risk.value <= step.risk.high < step.bound


def test_the_bounds_hold_at_all_steps_at_once_and_the_intervals_at_each():
    rng, draws = np.random.default_rng(3), 200
    together, each = 0, np.zeros(41)
    for _ in range(draws):
        steps = threshold_steps(*drawn(rng, samples=300)).steps[:-1]
        truth = [0.2 * (1.0 if one.threshold is None else one.threshold) / 2 for one in steps]
        together += all(risk <= one.bound for one, risk in zip(steps, truth, strict=True))
        inside = [o.risk.low <= risk <= o.risk.high for o, risk in zip(steps, truth, strict=True)]
        each[:40] += inside
    error = 3 * math.sqrt(0.05 * 0.95 / draws)
    assert together / draws > 0.95 - error
    assert (each[:40] / draws > 0.95 - error).all()


@pytest.mark.parametrize(("own", "step"), [(math.inf, 0), (-math.inf, 40)])
def test_a_guard_that_answers_all_or_nothing_is_the_first_or_the_last_step(own, step):
    assert threshold_steps(*drawn(np.random.default_rng(4)), own=own).own == step


def test_two_samples_without_a_finite_score_are_never_answered():
    found = threshold_steps([np.nan, np.inf], [0, 1])
    assert {step.answered for step in found.steps} == {0}
    assert found.steps[0].risk is None
    assert found.steps[0].bound == 1


def test_steps_are_written_and_read():
    found = threshold_steps(*drawn(np.random.default_rng(5)), own=0.5, ood={"z": ([0.1], None)})
    assert from_json(Thresholds, to_json(found)) == found


def test_what_does_not_fit_is_said():
    with pytest.raises(NescioError, match="2 scores but 1 answers"):
        threshold_steps([0.1, 0.2], [0])
    with pytest.raises(NescioError, match="decisions; give one per input"):
        threshold_steps([0.1, 0.2], [0, 1], called_ood=[0])
