"""Uniform noise as a value is the same as `uniform_noise`."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from nescio.core import NescioError
from nescio.data import ood, uniform_noise


@pytest.mark.parametrize("shape", [(1, 28, 28), (3,), (5, 7)], ids=str)
def test_the_values_are_those_of_uniform_noise(shape):
    made = ood.uniform(shape, low=-1.0, high=0.5, seed=3)
    expected = uniform_noise(30, shape, low=-1.0, high=0.5, seed=3)
    assert torch.equal(made.take(30), expected)
    assert torch.equal(made.take(4, 10), expected[10:14])


def test_mean_and_variance():
    values = ood.uniform((1, 28, 28), seed=1).take(200).double().flatten()
    assert abs(values.mean() - 0.5) < 4 * (1 / 12 / len(values)) ** 0.5
    assert abs(values.var() - 1 / 12) < 4 * (1 / 180 / len(values)) ** 0.5


def test_over_many_seeds_the_distribution_is_uniform():
    noises = [ood.uniform((1, 28, 28), seed=seed).take(5) for seed in range(100)]
    chances = [kstest(noise.double().flatten().numpy(), "uniform").pvalue for noise in noises]
    assert kstest(chances, "uniform").pvalue > 0.01  # one seed alone may well be unlucky


def test_a_range_for_each_feature():
    made = ood.uniform((2,), low=torch.tensor([0.0, 5.0]), high=np.array([1.0, 9.0]))
    values = made.take(100)
    assert torch.all((values >= torch.tensor([0.0, 5.0])) & (values <= torch.tensor([1.0, 9.0])))
    assert "low=0.0" not in made.description


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((), {}, r"`shape` must be that of one input"),
        ((3, 0), {}, r"got \(3, 0\)"),
        ((3,), {"low": 2.0}, "`low` must not be above `high`"),
        ((3,), {"high": float("inf")}, "`high` must be finite"),
        ((3,), {"low": [0.0, 0.0]}, r"the shape \(3,\) of one image, got \(2,\)"),
    ],
    ids=["none", "empty", "order", "infinite", "shape"],
)
def test_bad_ranges_and_shapes_are_refused(shape, options, message):
    with pytest.raises(NescioError, match=message):
        ood.uniform(shape, **options)
