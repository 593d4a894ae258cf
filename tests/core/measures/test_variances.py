"""Variances of regression: sums over targets of the law of total variance."""

import pytest
import torch

from nescio.core import DoubleExponential, Gaussian
from nescio.core.measures import aleatoric_variance, epistemic_variance, total_variance

MEAN = torch.tensor([[[0.0, 1.0]], [[2.0, 5.0]]])  # (2, 1, 2)
SPREAD = torch.tensor([[[1.0, 2.0]], [[3.0, 6.0]]])


def test_gaussian_variances_by_hand():
    prediction = Gaussian(MEAN, SPREAD)
    assert aleatoric_variance(prediction).item() == 2.0 + 4.0
    assert epistemic_variance(prediction).item() == 1.0 + 4.0
    assert total_variance(prediction).item() == 11.0


def test_laplace_variances_by_hand():
    prediction = DoubleExponential(MEAN, SPREAD)
    assert aleatoric_variance(prediction).item() == (2 + 18) / 2 + (8 + 72) / 2
    assert epistemic_variance(prediction).item() == 5.0


@pytest.mark.parametrize("kind", [Gaussian, DoubleExponential])
def test_total_is_the_sum_of_its_parts(kind):
    mean, spread = torch.randn(5, 8, 3), torch.rand(5, 8, 3)
    prediction = kind(mean, spread)
    parts = aleatoric_variance(prediction) + epistemic_variance(prediction)
    torch.testing.assert_close(total_variance(prediction), parts)
