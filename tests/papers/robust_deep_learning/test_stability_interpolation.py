"""Moves between pixels: exact for waves, and blurred where they are interpolated."""

import math

import torch
from torch import nn

from nescio_papers.robust_deep_learning.stability_interpolation import (
    claims,
    half_a_pixel,
    halfway,
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
    def judged(interpolated, exact, blur):
        gaps = zip(
            ("interpolated", "exact", "blur alone"), (interpolated, exact, blur), strict=True
        )
        numbers = {
            move: {"difference": {"value": gap, "low": gap - 0.01, "high": gap + 0.01}}
            for move, gap in gaps
        }
        return claims(numbers)[0].verdict

    assert judged(0.2, -0.1, 0.2) == "holds"
    assert judged(0.2, 0.1, 0.2) == "holds in part"
    assert judged(0.2, 0.1, -0.2) == "does not hold"
    assert judged(-0.2, -0.1, 0.2) == "not reached here"


def test_older_numbers_are_compared_by_their_ends():
    low, high = ({"value": v, "low": v - 0.01, "high": v + 0.01} for v in (0.1, 0.3))
    more, fewer = {"f": high, "t": low}, {"f": low, "t": high}
    numbers = {"interpolated": more, "exact": fewer, "blur alone": more}
    assert claims(numbers)[0].verdict == "holds"
