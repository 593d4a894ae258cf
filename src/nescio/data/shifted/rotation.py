"""Images turned about their middle (rotated MNIST, as in Ovadia et al., 2019)."""

import math

import torch
from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, positive
from nescio.data.shifted.warping import warp
from nescio.registry import shifts


@shifts.register
def rotation(*, degrees: float = 15) -> Shifted:
    """Turn images anticlockwise by `degrees` a step; bilinear, zeros come in at the corners."""
    step = positive("degrees", degrees)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers  # all are turned alike
        angle = math.radians(step * strength)
        turn = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        return warp(x, turn.expand(len(x), 2, 2), torch.zeros(len(x), 2))

    return Shifted("rotation", f"turned by {step:g} degrees a step", True, change)
