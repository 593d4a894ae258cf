"""Patches are where, how turned, how large and how bright a view says."""

import math

import numpy as np
import pytest
import torch

from nescio import NescioError
from nescio.attacks import Views
from nescio.attacks.views import NUMBERS, with_patch

STILL = Views(angle=0, scale=(1, 1), shift=0, brightness=0)
MIDDLE = torch.full((1, NUMBERS), 0.5)


def situation(side=9, patch=3, channels=2):
    drawn = torch.Generator().manual_seed(0)
    x = torch.rand(1, channels, side, side, generator=drawn)
    return x, torch.rand(channels, patch, patch, generator=drawn), torch.ones(patch, patch)


@pytest.mark.parametrize("patch", [2, 3, 9])
@pytest.mark.parametrize("position", [None, (0.5, 0.5)])
def test_without_movement_pixels_are_pasted(patch, position):
    x, pixels, mask = situation(side=9 if patch % 2 else 8, patch=patch)
    found = with_patch(x, pixels, mask, STILL, MIDDLE, position=position)
    start = (x.shape[2] - patch) // 2
    wanted = x.clone()
    wanted[:, :, start : start + patch, start : start + patch] = pixels
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_a_position_is_the_middle_of_the_patch():
    x, pixels, mask = situation(side=10, patch=2)
    found = with_patch(x, pixels, mask, STILL, MIDDLE, position=(0.2, 0.7))
    wanted = x.clone()
    wanted[:, :, 1:3, 6:8] = pixels
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_only_the_mask_covers():
    x, pixels, mask = situation()
    mask[0] = 0
    found = with_patch(x, pixels, mask, STILL, MIDDLE)
    wanted = x.clone()
    wanted[:, :, 4:6, 3:6] = pixels[:, 1:]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("position", [None, (0.5, 0.5)])
def test_a_quarter_turn_is_rot90(position):
    """Of the patch alone, or of the whole image."""
    x, pixels, mask = situation()
    numbers = MIDDLE.clone()
    numbers[0, 0] = 1.0
    found = with_patch(x, pixels, mask, Views(angle=90, scale=(1, 1), brightness=0, shift=0),
                       numbers, position=position)  # fmt: skip
    if position is None:
        wanted = x.clone()
        wanted[:, :, 3:6, 3:6] = torch.rot90(pixels, 1, (1, 2))
    else:
        wanted = x.clone()
        wanted[:, :, 3:6, 3:6] = pixels
        wanted = torch.rot90(wanted, 1, (2, 3))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_a_scale_covers_its_square():
    """The area of a turned and scaled patch, and that all of it is inside the image."""
    count, side, patch = 200, 40, 8
    drawn = torch.rand(count, NUMBERS, generator=torch.Generator().manual_seed(1))
    views = Views(angle=30, scale=(0.5, 2.0), brightness=0)
    x = torch.zeros(count, 1, side, side)
    covered = with_patch(x, torch.ones(1, patch, patch), torch.ones(patch, patch), views, drawn)
    scale = 0.5 * 4.0 ** drawn[:, 1].double()
    wanted = (patch * scale).square()
    found = covered.double().sum((1, 2, 3))
    np.testing.assert_allclose(found / wanted, 1, atol=0.1)


def test_places_reach_every_edge():
    x = torch.zeros(4, 1, 11, 11)
    numbers = torch.full((4, NUMBERS), 0.5)
    numbers[:, 3:5] = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = with_patch(x, torch.ones(1, 3, 3), torch.ones(3, 3), STILL, numbers)
    corners = [found[k, 0, r, c] for k, (c, r) in enumerate([(0, 0), (10, 0), (0, 10), (10, 10)])]
    torch.testing.assert_close(torch.stack(corners), torch.ones(4))
    torch.testing.assert_close(found.sum((1, 2, 3)), torch.full((4,), 9.0))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 3.0)])
def test_light_is_counted_from_the_dark_end(low, high):
    x, pixels, mask = situation()
    x, pixels = low + (high - low) * x, low + (high - low) * pixels
    numbers = MIDDLE.clone()
    numbers[0, 2] = 0.0
    views = Views(angle=0, scale=(1, 1), shift=0, brightness=0.5)
    box = {"low": low, "high": high}
    found = with_patch(x, pixels, mask, views, numbers, **box)
    torch.testing.assert_close(found[0, :, 3:6, 3:6], low + 0.5 * (pixels - low))
    whole = with_patch(x, pixels, mask, views, numbers, position=(0.5, 0.5), **box)
    bright = with_patch(x, pixels, mask, STILL, MIDDLE, **box)
    torch.testing.assert_close(whole, low + 0.5 * (bright - low), rtol=1e-5, atol=1e-5)


def test_a_shift_moves_the_whole_image():
    x, pixels, mask = situation(side=10, patch=2)
    numbers = MIDDLE.clone()
    numbers[0, 3] = 1.0  # to the right by a fifth of the width
    views = Views(angle=0, scale=(1, 1), shift=0.2, brightness=0)
    found = with_patch(x, pixels, mask, views, numbers, position=(0.5, 0.5))
    glued = with_patch(x, pixels, mask, STILL, MIDDLE, position=(0.5, 0.5))
    torch.testing.assert_close(found[..., 2:], glued[..., :-2], rtol=0, atol=1e-5)


def test_gradients_reach_the_pixels():
    x, pixels, mask = situation()
    drawn = torch.rand(7, NUMBERS, generator=torch.Generator().manual_seed(2))
    leaf = pixels.double().requires_grad_()
    images = x.double().expand(7, -1, -1, -1)
    views = Views(brightness=0.0)

    def sums(leaf):
        return with_patch(images, leaf, mask.double(), views, drawn).sum((1, 2, 3))

    assert torch.autograd.gradcheck(sums, leaf)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angle": -1}, "degrees"),
        ({"angle": math.nan}, "degrees"),
        ({"scale": (2.0, 1.0)}, "smallest, largest"),
        ({"scale": (0.0, 1.0)}, "above 0"),
        ({"shift": 1.0}, "shift is a share"),
        ({"brightness": -0.1}, "brightness is a share"),
    ],
)
def test_views_that_make_no_sense(options, message):
    with pytest.raises(NescioError, match=message):
        Views(**options)
