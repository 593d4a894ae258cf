"""The calibration of quantiles against numerical integration and simulations."""

import numpy as np
import pytest
import torch
from scipy import stats

from nescio import metrics
from nescio.core import Gaussian, NescioError


def unit(samples, targets=1, spread=1.0):
    shape = 1, samples, targets
    return Gaussian(torch.zeros(shape).double(), torch.full(shape, spread**2).double())


def test_the_transform_is_the_distribution_function():
    y = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(metrics.pit(unit(50, 2), y), stats.norm.cdf(y), rtol=1e-13)


@pytest.mark.parametrize("samples", [1, 2, 7, 100])
def test_the_error_is_the_area_between_curve_and_diagonal(samples):
    y = np.random.default_rng(samples).normal(size=samples) * 1.5 + 0.3
    u, p = stats.norm.cdf(y), (np.arange(1_000_000) + 0.5) / 1e6
    curve = np.searchsorted(np.sort(u), p, side="right") / samples
    expected = np.abs(curve - p).mean()
    found = metrics.quantile_calibration_error(unit(samples), y)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_curve_counts_targets_below_quantiles_and_in_central_intervals():
    said, y = unit(200, 2), np.random.default_rng(0).normal(size=(200, 2))
    found = metrics.quantile_calibration(said, y, levels=(0.1, 0.5, 0.8))
    for k, level in enumerate((0.1, 0.5, 0.8)):
        below = y <= said.quantile(level).numpy()
        low, high = said.quantile((1 - level) / 2), said.quantile((1 + level) / 2)
        inside = (low.numpy() <= y) & (y <= high.numpy())
        np.testing.assert_allclose(found.observed[k], below.mean(0))
        np.testing.assert_allclose(found.covered[k], inside.mean(0))
    assert found.band == pytest.approx(np.sqrt(np.log(2 * 2 / 0.05) / 400))
    assert found.calibrated
    assert (found.low >= 0).all()
    assert (found.high <= 1).all()


@pytest.mark.parametrize("targets", [1, 3])
def test_the_band_is_simultaneous_over_levels_and_targets(targets):
    rng, outside = np.random.default_rng(0), 0
    for _ in range(400):
        found = metrics.quantile_calibration(unit(100, targets), rng.normal(size=(100, targets)))
        outside += not found.calibrated
    assert outside <= stats.binom.ppf(0.999, 400, 0.05)


def test_too_small_a_variance_is_seen():
    y = np.random.default_rng(0).normal(size=500)
    said = unit(500, spread=0.5)
    assert not metrics.quantile_calibration(said, y).calibrated
    found = metrics.bootstrap_regression(said, y, of=["quantile_calibration_error"], resamples=200)
    assert found["quantile_calibration_error"].low > 0


def test_what_chance_explains_has_a_lower_bound_of_zero():
    rng, above, errors = np.random.default_rng(1), 0, []
    for seed in range(60):
        y = rng.normal(size=100)
        found = metrics.bootstrap_regression(
            unit(100), y, of=["quantile_calibration_error"], resamples=100, seed=seed
        )["quantile_calibration_error"]
        above += found.low > 0
        errors.append(found.value)
    assert above <= stats.binom.ppf(0.999, 60, 0.025)
    deviation = np.std(errors) / np.sqrt(60)
    assert np.mean(errors) == pytest.approx(0.3133 / np.sqrt(100), abs=4 * deviation)


@pytest.mark.parametrize("levels", [(), (0.0, 0.5), (0.5, 0.2), [[0.1]]])
def test_levels_are_checked(levels):
    with pytest.raises(NescioError, match="levels"):
        metrics.quantile_calibration(unit(5), np.zeros(5), levels=levels)
