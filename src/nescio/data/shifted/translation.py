"""Images moved aside."""

import math

import torch
from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, positive, uniform
from nescio.data.shifted.warping import warp
from nescio.registry import shifts


@shifts.register
def translation(*, pixels: float = 2, seed: int = 0) -> Shifted:
    """Move each image by `pixels` a step in a direction of its own; zeros come in at the edge."""
    step = positive("pixels", pixels)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        angle = 2 * math.pi * uniform(seed, "translation", numbers, 1)
        move = step * strength * torch.cat([angle.cos(), angle.sin()], dim=1)
        return warp(x, torch.eye(2).expand(len(x), 2, 2), move)

    return Shifted("translation", f"moved by {step:g} pixels a step", True, change)
