"""Plans of labels: against known curves, a grid search, and the coverage of the interval."""

import math

import numpy as np
import pytest

from nescio import NescioError
from nescio.applications.active_learning import plan

LABELS = 20 * np.arange(1, 13)


def curve(labels, floor=0.02, scale=3.0, exponent=0.8):
    return floor + scale * np.asarray(labels, float) ** -exponent


def test_a_curve_without_noise_is_met_where_the_closed_form_says():
    found = plan(LABELS, curve(LABELS), target=0.03, tested=10_000_000)
    true = (3.0 / (0.03 - 0.02)) ** (1 / 0.8)
    assert found.needed == pytest.approx(true, rel=0.03)
    assert found.low <= true <= found.high
    assert found.floor == pytest.approx(0.02, abs=2e-4)
    assert found.exponent == pytest.approx(0.8, rel=0.03)
    assert found.error_at([100])[0] == pytest.approx(curve(100), rel=0.01)


def test_the_fit_is_the_weighted_least_squares_of_scipy():
    from scipy.optimize import least_squares

    rng = np.random.default_rng(3)
    errors = rng.binomial(500, curve(LABELS)) / 500
    found = plan(LABELS, errors, target=0.05, tested=500)
    spread = np.sqrt(found.error_at(LABELS) * (1 - found.error_at(LABELS)) / 500)

    def residuals(values):
        floor, scale, exponent = values
        return (curve(LABELS, floor, scale, exponent) - errors) / spread

    best = min(
        least_squares(residuals, [0.01, 1.0, start], bounds=([0, 0, 0.05], [1, 100, 2])).cost
        for start in (0.3, 0.8, 1.5)
    )
    own = 0.5 * (((found.error_at(LABELS) - errors) / spread) ** 2).sum()
    assert own <= best * 1.01


@pytest.mark.parametrize("shared", [False, True])
def test_the_interval_covers_the_number_that_is_needed(shared):
    """The 90 % interval, in 120 draws each of own and of shared test samples."""
    rng = np.random.default_rng(0)
    rates, target, tested = curve(LABELS[:8]), 0.05, 1000
    true = (3.0 / (target - 0.02)) ** (1 / 0.8)
    covered = 0
    for _ in range(120):
        if shared:
            errors = (rng.random(tested)[:, None] < rates).mean(0)
        else:
            errors = rng.binomial(tested, rates) / tested
        found = plan(LABELS[:8], errors, target=target, tested=tested, draws=200)
        covered += found.low <= true <= found.high
    assert covered >= 0.85 * 120


def test_the_interval_of_few_points_covers_too():
    """Five points around a curve that has no floor: the scatter of so few is uncertain itself."""
    draw, labels = np.random.default_rng(3), LABELS[:5]
    errors = draw.binomial(600, 2 * labels**-0.5, (120, 5)) / 600
    found = [plan(labels, row, target=0.12, tested=600, draws=200) for row in errors]
    assert sum(one.low <= (2 / 0.12) ** 2 <= one.high for one in found) >= 0.94 * 120


def test_a_target_below_the_floor_is_reached_by_no_number_of_labels():
    found = plan(LABELS, curve(LABELS, floor=0.1), target=0.05, tested=100_000)
    assert math.isinf(found.needed)
    assert found.never > 0.9
    assert "not reached by any number of labels that these points can tell" in str(found)


def test_what_is_reached_already_needs_no_more_labels():
    found = plan(LABELS, curve(LABELS), target=0.2, tested=100_000)
    assert found.more == 0
    assert "is reached with 240 labels" in str(found)
    assert f"90% interval of the labels that it takes: {found.low:.0f} to" in str(found)


def test_a_far_target_is_said_to_be_a_guess_and_noise_widens_the_interval():
    far = plan(LABELS, curve(LABELS), target=0.025, tested=1_000_000)
    assert "take it for a guess" in str(far)
    sure, unsure = (plan(LABELS, curve(LABELS), target=0.05, tested=n) for n in (10**6, 300))
    assert unsure.low < sure.low <= sure.high < unsure.high


def test_the_same_seed_draws_the_same():
    first, again, other = (
        plan(LABELS, curve(LABELS), target=0.05, tested=300, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("labels", "errors", "options", "said"),
    [
        ([20, 40, 60], [0.3, 0.2, 0.1], {}, "takes at least 4"),
        ([20, 40, 60, 80], [0.3, 0.2, 0.1], {}, "4 numbers of labels but 3"),
        ([20, 40, 40, 80], [0.3, 0.2, 0.1, 0.1], {}, "rise from point to point"),
        ([20, 40, 60, 80], [30, 20, 10, 5], {}, "between 0 and 1"),
        ([20, 40, 60, 80], [0.3, 0.2, 0.1, 0.1], {"target": 5}, "target must be an error rate"),
        ([20, 40, 60, 80], [0.3, 0.2, 0.1, 0.1], {"tested": 0}, "the number of test samples"),
    ],
)
def test_what_cannot_be_planned_is_refused(labels, errors, options, said):
    with pytest.raises(NescioError, match=said):
        plan(labels, errors, **{"target": 0.05, "tested": 100, **options})
