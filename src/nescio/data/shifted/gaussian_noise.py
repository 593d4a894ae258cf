"""Gaussian noise on every pixel (Hendrycks and Dietterich, 2019)."""

import numpy as np
import torch
from torch import Tensor

from nescio.data import bits
from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, positive
from nescio.randomness import derive
from nescio.registry import shifts


@shifts.register
def gaussian_noise(*, deviation: float = 0.1, seed: int = 0) -> Shifted:
    """Add noise of standard deviation `deviation` a step, cut to the range of images."""
    step = positive("deviation", deviation)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        noise = normal(seed, numbers, x[0].numel()).view(x.shape).to(x)
        return x + step * strength * noise

    return Shifted("gaussian_noise", f"noise of deviation {step:g} a step", True, change)


def normal(seed: int, numbers: Indices, size: int) -> Tensor:
    """Standard normal numbers `(n, size)`, by pairs (Box and Muller, 1958)."""
    half = -(-size // 2)
    drawn = bits.rows(derive(seed, "gaussian noise"), 0, numbers, 2 * half, np.float64)
    radius = np.sqrt(-2 * np.log1p(-drawn[:, :half]))
    angle = 2 * np.pi * drawn[:, half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(both[:, :size].astype(np.float32))
