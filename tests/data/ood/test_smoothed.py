"""Smoothing, against scipy's filter; the papers' noise, half and half."""

import numpy as np
import pytest
import torch
from numpy.random import Generator, Philox, SeedSequence
from scipy.ndimage import gaussian_filter1d
from scipy.stats import kstest

from nescio.core import NescioError
from nescio.data import ood, random_access

SHAPES = [(1, 28, 28), (3, 32, 32), (2, 9, 17), (1, 8, 8), (1, 3, 5), (1, 1, 20), (1, 1, 2)]


def sigmas(seed, count, low=1.0, high=2.5):
    source = Generator(Philox(SeedSequence(seed, spawn_key=(random_access.WIDTH,))))
    return source.uniform(low, high, count)


def by_scipy(image, sigma):
    """Float64, one axis after the other; scipy's "reflect" repeats the edge, as symmetric does."""
    blurred = image.double().numpy()
    for axis in (1, 2):
        blurred = gaussian_filter1d(blurred, sigma, axis=axis, mode="reflect", radius=7)
    return (blurred - blurred.min()) / (blurred.max() - blurred.min())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("low", "high"), [(1.0, 2.5), (0.3, 7.0)], ids=str)
def test_smoothing_is_that_of_scipy(shape, low, high):
    noise = ood.uniform(shape, seed=4)
    made = ood.smoothed(noise, low=low, high=high, seed=9).take(20).numpy()
    for image, found, sigma in zip(noise.take(20), made, sigmas(9, 20, low, high), strict=True):
        np.testing.assert_allclose(found, by_scipy(image, sigma), rtol=0, atol=2e-5)


def test_the_width_is_read_off_a_single_bright_pixel():
    point = torch.zeros(1, 1, 33, 33)
    point[0, 0, 16, 16] = 1
    dots = ood.another(point.repeat(500, 1, 1, 1), "dots")
    made = ood.smoothed(dots, seed=2).take(500).double()
    assert torch.all(made[:, 0, 16, 16] == 1)
    assert torch.all(made[:, 0, 8] == 0)  # beyond the 15 x 15 kernel
    assert torch.all(made[:, 0, 9, 16] > 0)
    found = (-0.5 / made[:, 0, 16, 17].log()).sqrt().numpy()  # the neighbor is exp(-1 / 2 s^2)
    assert found.min() >= 1 - 1e-6
    assert found.max() <= 2.5 + 1e-6
    assert kstest((found - 1) / 1.5, "uniform").pvalue > 0.01
    np.testing.assert_allclose(found, sigmas(2, 500), rtol=1e-5)


def test_every_image_has_the_full_range_all_channels_together():
    made = ood.smoothed(ood.uniform((3, 10, 10), low=5.0, high=[[[6.0] * 10] * 10] * 3))
    flat = made.take(50).flatten(1)
    assert torch.all(flat.amin(1) == 0)
    assert torch.all(flat.amax(1) == 1)
    assert made.take(50).amax((2, 3)).lt(1).any()  # not each channel by itself


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_an_image_of_one_value_stays_as_it_is(level):
    x = torch.full((3, 2, 9, 9), level)
    x[1] = torch.rand(2, 9, 9)
    made = ood.smoothed(ood.another(x, "flat")).take(3)
    assert torch.equal(made[0], x[0])
    assert torch.equal(made[2], x[2])
    assert made[1].max() == 1


def test_faint_images_are_stretched_without_rounding_noise():
    faint = ood.another(0.5 + 1e-4 * torch.rand(4, 1, 28, 28), "faint")
    made = ood.smoothed(faint).take(4).numpy()
    for image, found, sigma in zip(faint.take(4), made, sigmas(0, 4), strict=True):
        np.testing.assert_allclose(found, by_scipy(image, sigma), rtol=0, atol=2e-5)


def test_the_noise_of_the_papers_is_half_and_half():
    x = torch.randint(0, 256, (30, 1, 28, 28), dtype=torch.uint8)
    made = ood.paper_noise(x, seed=5)
    uniform, permuted = ood.uniform((1, 28, 28), seed=5), ood.permuted(x, seed=5)
    widths = sigmas(5, 40)
    for index, found in enumerate(made.take(40).numpy()):
        image = (permuted if index % 2 else uniform).take(1, index // 2)[0]
        np.testing.assert_allclose(found, by_scipy(image, widths[index]), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (2.0, 1.0), (1.0, 7.5), (1.0, float("nan"))], ids=str
)
def test_bad_widths_are_refused(low, high):
    with pytest.raises(NescioError, match=f"0 < low <= high <= 7.*got low={low} and high={high}"):
        ood.smoothed(ood.uniform((1, 4, 4)), low=low, high=high)


@pytest.mark.parametrize("shape", [(5,), (4, 4)], ids=str)
def test_only_images_are_smoothed(shape):
    with pytest.raises(NescioError, match=r"only images of shape \(C, H, W\) can be smoothed"):
        ood.smoothed(ood.uniform(shape))


def test_the_noise_of_the_papers_needs_images():
    with pytest.raises(NescioError, match=r"'uniform \+ permuted' has inputs of shape \(5,\)"):
        ood.paper_noise(torch.rand(3, 5))


@pytest.mark.parametrize("change", [lambda x: 255 * x, lambda x: (x - 0.13) / 0.31])
def test_paper_noise_is_for_images_in_the_unit_range(change):
    x = torch.rand(4, 1, 6, 6)
    with pytest.raises(NescioError, match=r"makes images in \[0, 1\], those of x range from .* to"):
        ood.paper_noise(change(x))
    assert ood.paper_noise((255 * x).byte()).take(4).max() == 1
    ood.paper_noise((x - x.min()) / (x.max() - x.min()))
