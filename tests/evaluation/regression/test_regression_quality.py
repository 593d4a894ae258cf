"""Numbers of a regression on test data, against scikit-learn, scipy and brute force."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import r2_score

from nescio.core import DoubleExponential, Gaussian, NescioError, StudentT
from nescio.evaluation.regression import regression_quality as ours


@pytest.fixture(scope="module")
def drawn():
    """An overconfident ensemble of three, two targets of different scale."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randn(300, 2, generator=rng, dtype=torch.float64) * torch.tensor([1.0, 100.0])
    noise = torch.randn(3, 300, 2, generator=rng, dtype=torch.float64)
    mean = y + 0.5 * noise * torch.tensor([1.0, 100.0])
    return Gaussian(mean, torch.full_like(mean, 0.01) * torch.tensor([1.0, 1e4])), y


def test_quality_agrees_with_scikit_learn_and_scipy(drawn):
    prediction, y = drawn
    found = ours.quality(prediction, y)
    mean = prediction.mixture_mean.numpy()
    assert found.r2 == pytest.approx(r2_score(y.numpy(), mean), abs=1e-12)
    gap = y.numpy() - mean
    assert found.rmse.value == pytest.approx(np.sqrt((gap**2).mean(0)).mean())
    assert found.rmse.low < found.rmse.value < found.rmse.high
    z = gap / np.sqrt(prediction.mixture_variance.numpy())
    assert found.standardized_error == pytest.approx(np.sqrt((z**2).mean()))
    cdf = stats.norm.cdf(y.numpy(), prediction.mean.numpy(), np.sqrt(prediction.variance.numpy()))
    u = cdf.mean(0)
    for level in (0.5, 0.9, 0.95):
        inside = (u >= (1 - level) / 2) & (u <= (1 + level) / 2)
        assert found.coverage[f"{level:g}"].value == pytest.approx(inside.mean())
    assert found.curve.below_median == pytest.approx((u < 0.5).mean())
    assert found.curve.held[9] == found.coverage["0.5"].value
    assert not found.curve.calibrated


def test_the_coverage_of_one_target_has_exact_bounds(drawn):
    prediction, y = drawn
    one = Gaussian(prediction.mean[..., :1], prediction.variance[..., :1])
    share = ours.quality(one, y[:, :1]).coverage["0.9"]
    count = round(share.value * 300)
    exact = stats.binomtest(count, 300).proportion_ci(0.95, "exact")
    assert (share.low, share.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_calibrated_predictions_are_called_calibrated():
    rng = torch.Generator().manual_seed(1)
    mean = torch.randn(1, 500, 1, generator=rng, dtype=torch.float64)
    y = mean[0] + torch.randn(500, 1, generator=rng, dtype=torch.float64)
    found = ours.quality(Gaussian(mean, torch.ones_like(mean)), y)
    assert found.curve.calibrated
    assert found.coverage["0.9"].low < 0.9 < found.coverage["0.9"].high


@pytest.mark.parametrize("kind", ["laplace", "student"])
def test_other_densities_have_all_numbers(kind):
    mean = torch.zeros(2, 60, 1, dtype=torch.float64)
    y = torch.linspace(-2, 2, 60, dtype=torch.float64)[:, None]
    if kind == "laplace":
        prediction = DoubleExponential(mean, torch.ones_like(mean))
    else:
        one = torch.ones_like(mean)
        prediction = StudentT(mean=mean, scale=one, df=5 * one, evidence=one)
    found = ours.quality(prediction, y)
    assert found.crps is None or found.crps.value > 0
    assert 0 < found.coverage["0.5"].value < found.coverage["0.95"].value <= 1


def test_the_baseline_is_the_normal_density_of_the_targets():
    y = torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64)
    found = ours.constant(y, 4)
    assert found.mean.shape == (1, 4, 1)
    assert found.mixture_mean[0].item() == pytest.approx(2)
    assert found.mixture_variance[0].item() == pytest.approx(np.var([0, 1, 5]))


def test_each_of_several_targets_has_its_own_numbers(drawn):
    prediction, y = drawn
    found = ours.by_target(prediction, y)
    gap = (y - prediction.mixture_mean).numpy()
    assert list(found) == ["0", "1"]
    for k, part in enumerate(found.values()):
        assert part.rmse == pytest.approx(np.sqrt((gap[:, k] ** 2).mean()))
        assert part.deviation == pytest.approx(y[:, k].std(correction=0).item())
    assert ours.by_target(Gaussian(prediction.mean[..., :1], prediction.mean[..., :1].abs()),
                          y[:, :1]) == {}  # fmt: skip


def test_targets_that_never_vary_are_refused():
    y = torch.tensor([[1.0, 3.0], [2.0, 3.0]])
    with pytest.raises(NescioError, match=r"target 1 of the test data never varies \(all 3\)"):
        ours.scale_of(y)


def test_examples_are_ordered_and_have_the_intervals_of_the_mixture(drawn):
    prediction, y = drawn
    found = ours.examples(prediction, y)
    assert [one.mean for one in found] == sorted(one.mean for one in found)
    low, high = prediction.quantile(0.05)[:, 0], prediction.quantile(0.95)[:, 0]
    assert min(one.low for one in found) == pytest.approx(low.min().item())
    assert max(one.high for one in found) == pytest.approx(high.max().item())
