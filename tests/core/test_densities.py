"""Distribution functions and quantiles of mixtures against scipy."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import brentq

import nescio
from nescio.core import NescioError


def mixture(kind, members, samples=5, targets=2):
    rng = np.random.default_rng(0)
    shape = members, samples, targets
    center, spread = rng.normal(size=shape) * 3, rng.random(shape) + 0.1
    if kind == "normal":
        return nescio.Gaussian(torch.tensor(center), torch.tensor(spread**2)), center, spread
    return nescio.DoubleExponential(torch.tensor(center), torch.tensor(spread)), center, spread


LAWS = {"normal": stats.norm, "laplace": stats.laplace}


@pytest.mark.parametrize("level", [0.01, 0.05, 0.5, 0.9, 0.975])
@pytest.mark.parametrize("kind", ["normal", "laplace"])
@pytest.mark.parametrize("members", [1, 4])
def test_quantiles_of_a_mixture_solve_its_distribution(level, kind, members):
    said, center, spread = mixture(kind, members)
    law, found = LAWS[kind], said.quantile(level).numpy()
    for sample in np.ndindex(5, 2):
        mine = (slice(None), *sample)
        share = lambda y, m=mine: law.cdf(y, center[m], spread[m]).mean() - level  # noqa: E731
        assert found[sample] == pytest.approx(brentq(share, -30, 30, xtol=1e-13), abs=1e-9)


@pytest.mark.parametrize("kind", ["normal", "laplace"])
def test_the_distribution_function_is_the_mean_of_the_members(kind):
    said, center, spread = mixture(kind, 4, samples=50)
    y = 3 * torch.randn(50, 2, dtype=torch.float64)
    expected = LAWS[kind].cdf(y.numpy(), center, spread)
    np.testing.assert_allclose(said.member_cdf(y).numpy(), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(said.cdf(y).numpy(), expected.mean(0), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["normal", "laplace"])
def test_quantiles_and_the_distribution_function_are_inverse_over_maps_too(kind):
    said, _, _ = mixture(kind, 3, samples=12, targets=1)
    maps = type(said)(*(t.reshape(3, 2, 6, 1) for t in (vars(said).values())))
    found = maps.quantile(0.3)
    assert found.shape == (2, 6, 1)
    assert torch.allclose(maps.cdf(found), torch.tensor(0.3).double(), atol=1e-12)


def test_levels_and_members_without_a_density_are_refused():
    sure = nescio.Gaussian(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1))
    with pytest.raises(NescioError, match="no density"):
        sure.quantile(0.5)
    with pytest.raises(NescioError, match="no density"):
        sure.cdf(torch.zeros(3, 1))
    with pytest.raises(NescioError, match="between 0 and 1"):
        nescio.Gaussian(torch.zeros(1, 3, 1), torch.ones(1, 3, 1)).quantile(1.0)


def test_quantiles_hold_where_scales_differ_by_many_powers_of_ten():
    for kind in (nescio.Gaussian, nescio.DoubleExponential):
        mean = torch.tensor([0.0, 10.0, 1e9], dtype=torch.float64)[:, None, None]
        spread = torch.tensor([1e-20, 1.0, 1e12], dtype=torch.float64)[:, None, None]
        said = kind(mean, spread)
        for level in (1e-3, 0.2, 0.5, 0.9):
            np.testing.assert_allclose(said.cdf(said.quantile(level)), level, rtol=1e-7)
    for level in (1e-300, 1 - 1e-16):
        assert said.quantile(level).isfinite().all()
