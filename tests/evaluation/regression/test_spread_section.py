"""The order of errors by spread, and intervals, against scipy and brute force."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from nescio import conformal, metrics
from nescio.core import Gaussian
from nescio.evaluation.regression.regression_quality import scale_of
from nescio.evaluation.regression.spread_section import (
    error_curve,
    interval_findings,
    rank_correlation,
    spread_findings,
)


def drawn(seed, samples=400, factor=1.0):
    """Noise whose deviation is predicted up to a factor."""
    rng = torch.Generator().manual_seed(seed)
    mean, log = (torch.randn(samples, 1, generator=rng, dtype=torch.float64) for _ in range(2))
    deviation = (0.7 * log).exp()
    y = mean + deviation * torch.randn(samples, 1, generator=rng, dtype=torch.float64)
    return Gaussian(mean[None], (factor * deviation).square()[None]), y


def test_the_rank_correlation_is_spearmans():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, 80), rng.normal(size=80).round(1)
    assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_the_error_curve_is_the_mean_over_all_orders_of_ties():
    score, error = np.array([1.0, 2.0, 2.0, 2.0, 3.0]), np.array([5.0, 1.0, 4.0, 7.0, 2.0])
    orders = [p for p in itertools.permutations(range(5)) if (np.diff(score[list(p)]) >= 0).all()]
    each = [np.cumsum(error[list(p)]) / np.arange(1, 6) for p in orders]
    np.testing.assert_allclose(error_curve(score, error), np.mean(each, 0))


def test_a_spread_that_is_right_ranks_the_errors():
    prediction, y = drawn(0)
    found = spread_findings(prediction, y, scale_of(y))
    spread = prediction.variance[0].sqrt()[:, 0].numpy()
    error = (y - prediction.mean[0]).abs()[:, 0].numpy()
    wanted = stats.spearmanr(spread, error).statistic
    assert found.rank_correlation.value == pytest.approx(wanted)
    assert 0 < found.rank_correlation.low < wanted < found.rank_correlation.high
    large = error > np.quantile(error, 0.9)
    assert found.auroc.value == pytest.approx(metrics.auroc(spread[~large], spread[large]))
    assert 0.2 < found.gain < 1
    assert found.curve.error[-1] == pytest.approx((error / y.std(correction=0).item()).mean())


def test_a_spread_that_never_varies_says_nothing():
    prediction, y = drawn(0)
    flat = Gaussian(prediction.mean, torch.ones_like(prediction.mean))
    found = spread_findings(flat, y, scale_of(y))
    assert found.rank_correlation is None
    assert "same for every sample" in found.skipped


def test_few_samples_say_nothing():
    prediction, y = drawn(0, samples=20)
    assert "20 samples are too few" in spread_findings(prediction, y, scale_of(y)).skipped


def test_calibrated_intervals_hold_what_narrow_ones_do_not():
    fitting, measured = drawn(1, factor=0.5), drawn(2, factor=0.5)
    found = interval_findings(fitting, measured)
    own = found.methods["its own"]
    low, high = (measured[0].quantile(level) for level in (0.05, 0.95))
    held = ((low <= measured[1]) & (measured[1] <= high)).double().mean().item()
    assert own.coverage.value == pytest.approx(held)
    assert own.coverage.high < 0.9
    for name in ("normalized", "residual", "quantile"):
        part = found.methods[name]
        ends = getattr(conformal, name)(*fitting)(measured[0])
        assert part.width == pytest.approx((ends[1] - ends[0]).mean().item())
        assert part.score == pytest.approx(metrics.interval_score(*ends, measured[1]))
        assert part.coverage.low < 0.9 < part.coverage.high
    assert found.skipped == {}
    scores = {name: part.score for name, part in found.methods.items()}
    assert min(scores, key=scores.get) == "normalized"


def test_too_few_samples_leave_the_calibrated_intervals_out():
    found = interval_findings(drawn(1, samples=5), drawn(2))
    assert list(found.methods) == ["its own"]
    assert all("5" in why for why in found.skipped.values())
