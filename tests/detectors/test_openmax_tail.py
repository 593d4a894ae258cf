"""A Weibull by maximum likelihood: scipy's, and the stationary point of the likelihood."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nescio.detectors.class_means import fit_weibull


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("size", [3, 20, 500])
def test_against_scipy(shape, size):
    numbers = stats.weibull_min.rvs(shape, scale=7.0, size=size, random_state=size)
    found = fit_weibull(torch.from_numpy(numbers))
    expected = stats.weibull_min.fit(numbers, floc=0, method="MLE")
    assert found[0] == pytest.approx(expected[0], rel=2e-3)
    likelihoods = [
        stats.weibull_min.logpdf(numbers, k, scale=s).sum()
        for k, s in (found, (expected[0], expected[2]))
    ]
    assert likelihoods[0] >= likelihoods[1] - 1e-9 * abs(likelihoods[1])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1.0, 50.0), min_size=3, max_size=30, unique=True))
def test_the_slope_of_the_likelihood_is_zero(values):
    numbers = torch.tensor(values, dtype=torch.float64)
    if float(numbers.max() - numbers.min()) < 1e-6:
        return
    shape, scale = fit_weibull(numbers)
    k, s = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (shape, scale))
    logs = (numbers / s).log()
    (k.log() - s.log() + (k - 1) * logs - (k * logs).exp()).sum().backward()
    assert abs(float(k.grad)) * shape < 1e-6 * len(values)
    assert abs(float(s.grad)) * scale < 1e-6 * len(values) * max(1.0, shape)
