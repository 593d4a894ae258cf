"""Gaussian blur."""

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, positive
from nescio.registry import shifts

REACH = 4  # deviations that the kernel covers each way


@shifts.register
def blur(*, deviation: float = 0.5) -> Shifted:
    """Blur by a Gaussian of standard deviation `deviation` pixels a step; edges are continued."""
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        spread = step * strength
        reach = int(REACH * spread + 0.5)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / spread).square())
        kernel = (kernel / kernel.sum()).to(x)
        flat = x.flatten(0, 1)[:, None]  # every channel by itself
        padded = F.pad(flat, (reach,) * 4, mode="replicate")
        across = F.conv2d(padded, kernel[None, None, None, :])
        return F.conv2d(across, kernel[None, None, :, None]).view(x.shape)

    return Shifted("blur", f"Gaussian blur of {step:g} pixels a step", True, change)
