"""Noise is a function of (seed, index): slices, seeds, ranges and permutations."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from nescio.core import NescioError
from nescio.data import permuted_pixels, uniform_noise
from nescio.data import random_access as noise_module

SHAPES = [(4,), (1,), (3,), (5, 5), (1, 7, 3), (3, 8, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slice_of_the_noise_is_the_slice_of_the_whole(shape):
    whole = uniform_noise(10, shape, seed=3)
    assert whole.shape == (10, *shape)
    assert whole.dtype == torch.float32
    assert torch.equal(whole[3:7], uniform_noise(4, shape, seed=3, start=3))
    for index in range(10):
        assert torch.equal(whole[index], uniform_noise(1, shape, seed=3, start=index)[0])


def test_seeds_and_far_places_differ():
    first = uniform_noise(2, (50,))
    assert not torch.equal(first, uniform_noise(2, (50,), seed=1))
    assert not torch.equal(first, uniform_noise(2, (50,), start=10**15))
    assert not torch.equal(first[0], first[1])


def test_the_noise_is_uniform():
    values = uniform_noise(100, (10, 20), seed=8).flatten().numpy()
    assert values.min() >= 0
    assert values.max() <= 1
    assert kstest(values, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.03


def test_a_range_for_all_or_for_each_feature():
    unit = uniform_noise(500, (3,), seed=2)
    both = uniform_noise(500, (3,), seed=2, low=-2.0, high=6.0)
    torch.testing.assert_close(both, unit * 8 - 2)
    low, high = torch.tensor([0.0, 5.0, -1.0]), np.array([1.0, 5.0, 100.0])
    each = uniform_noise(500, (3,), seed=2, low=low, high=high)
    assert torch.equal(each[:, 0], unit[:, 0])
    assert torch.all(each[:, 1] == 5)
    assert -1 <= each[:, 2].min() < 3
    assert 97 < each[:, 2].max() <= 100


def test_rounding_never_leaves_the_range():
    low, high = np.float32(0.1), np.float32(0.3)
    values = uniform_noise(20_000, (10,), low=low, high=high)
    assert values.min() >= low
    assert values.max() <= high


@pytest.mark.parametrize(
    ("count", "shape", "options", "message"),
    [
        (0, (3,), {}, r"at least one image and pixel, got 0 of \(3,\)"),
        (2, (3, 0), {}, r"got 2 of \(3, 0\)"),
        (2, (3,), {"seed": -1}, "`seed` and `start` must be 0 or more, got -1 and 0"),
        (2, (3,), {"start": -1}, "got 0 and -1"),
        (2, (3,), {"low": 2.0}, "`low` must not be above `high`"),
        (2, (3,), {"high": float("nan")}, "`high` must be finite"),
        (2, (3,), {"low": [0.0, 0.0]}, r"the shape \(3,\) of one image, got \(2,\)"),
    ],
)
def test_bad_noise_is_refused(count, shape, options, message):
    with pytest.raises(NescioError, match=message):
        uniform_noise(count, shape, **options)


@pytest.mark.parametrize("shape", [(7,), (1, 3, 3), (3, 5, 2)])
def test_a_slice_of_permuted_images_is_the_slice_of_the_whole(shape, monkeypatch):
    x = torch.arange(10 * int(np.prod(shape))).reshape(10, *shape)
    whole = permuted_pixels(x, seed=3)
    assert torch.equal(permuted_pixels(x[3:7], seed=3, start=3), whole[3:7])
    assert not torch.equal(permuted_pixels(x, seed=4), whole)
    monkeypatch.setattr(noise_module, "BLOCK", 20)
    assert torch.equal(permuted_pixels(x, seed=3), whole)


def test_a_permutation_keeps_the_pixels_and_their_channels():
    x = torch.arange(4 * 3 * 6 * 5).reshape(4, 3, 6, 5)
    before, after = x.flatten(2), permuted_pixels(x).flatten(2)
    assert torch.equal(after.sort(dim=2).values, before)
    assert torch.equal(after[:, 1] - after[:, 0], before[:, 1] - before[:, 0])  # 30 everywhere
    orders = after[:, 0] - x.flatten(2)[:, :1, 0]
    assert len({tuple(order.tolist()) for order in orders}) == 4  # each image its own


def test_permutations_are_all_equally_likely():
    x = torch.arange(3.0).repeat(6000, 1)
    kinds, counts = permuted_pixels(x, seed=1).unique(dim=0, return_counts=True)
    assert len(kinds) == 6
    assert torch.all((counts - 1000).abs() < 120)  # four deviations


def test_permuted_pixels_keeps_type_and_input():
    x = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4)
    assert permuted_pixels(x).dtype == torch.uint8
    assert x.flatten().tolist() == list(range(16))
    sideways = x.transpose(2, 3)  # not contiguous
    assert torch.equal(permuted_pixels(sideways), permuted_pixels(sideways.contiguous()))


@pytest.mark.parametrize("shape", [(3,), (3, 4, 4), (0, 4)])
def test_bad_images_are_refused(shape):
    with pytest.raises(NescioError, match=r"must be \(N, F\) or \(N, C, H, W\)"):
        permuted_pixels(torch.zeros(shape))


def test_a_bad_place_of_a_permutation_is_refused():
    with pytest.raises(NescioError, match="`seed` and `start` must be 0 or more"):
        permuted_pixels(torch.zeros(1, 2), start=-1)
