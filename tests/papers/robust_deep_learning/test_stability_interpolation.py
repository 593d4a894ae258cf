"""Moves between pixels: exact for waves, and blurred where they are interpolated."""

import math

import torch
from torch import nn

from nescio.metrics import Interval
from nescio_papers.robust_deep_learning.stability_interpolation import (
    half_a_pixel,
    halfway,
    interpolation_claim,
    shifted,
)


def bump(center, width=28):
    return torch.exp(-(((torch.arange(width) - center) / 2.5) ** 2)).double().expand(1, 1, 1, width)


def test_an_exact_move_is_that_of_the_function_and_an_interpolated_one_is_lower():
    assert torch.allclose(shifted(bump(12.0), 0.5), bump(12.5), atol=1e-6)
    assert torch.allclose(shifted(bump(12.0), 1.0)[..., 1:], bump(12.0)[..., :-1], atol=1e-6)
    assert halfway(bump(12.0)).norm() < 0.99 * bump(12.5).norm()


def test_numbers_are_distances_of_outputs_in_units_of_two_images():
    x = torch.rand(40, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    found = half_a_pixel({"first": nn.Flatten(), "second": nn.Flatten()}, x)
    flat = x.flatten(1)
    unit = math.sqrt(2 * float((flat - flat.mean(0)).square().sum(1).mean()))
    expected = float((halfway(x) - x).flatten(1).norm(dim=1).mean()) / unit
    assert abs(found.numbers["interpolated"]["first"]["value"] - expected) < 1e-6


def test_the_claim_holds_where_the_blur_alone_makes_the_difference():
    low, high = Interval(0.1, 0.09, 0.11), Interval(0.3, 0.29, 0.31)
    apart = {"interpolated": {"f": high, "t": low}, "exact": {"f": low, "t": high}}
    assert interpolation_claim({**apart, "blur alone": {"f": high, "t": low}}).verdict == "holds"
    other = {**apart, "exact": {"f": high, "t": low}, "blur alone": {"f": high, "t": low}}
    assert interpolation_claim(other).verdict == "fails"
