"""Fixed features of digits: how strong edges of each direction are, at 7x7 positions.

The first order of a scattering transform (Bruna and Mallat, 2013): amplitudes of wave filters,
blurred. Nothing is learned here, from labels or from images. The networks of active learning read
these features in place of learned convolutions, and the trainings of a step take a second.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import as_batch

DIRECTIONS = 8
SCALES = (0.8, 1.6)  # pixels; standard deviations of the filters across the wave
ALONG = 2.0  # times as long along it
WAVE = 0.6 * math.pi  # radians over one standard deviation
WINDOW = 9  # pixels
BLUR, STRIDE = 2.0, 4  # pixels
PIECE = 500  # images at a time


def edges(images: Tensor) -> Tensor:
    """Features `(N, 833)` of images `(N, 1, 28, 28)`: 8 directions x 2 scales, and brightness."""
    filters, blur = _waves(), _gaussian(BLUR)
    return torch.cat([_edges(as_batch(part), filters, blur) for part in images.split(PIECE)])


def _edges(x: Tensor, filters: Tensor, blur: Tensor) -> Tensor:
    even, odd = F.conv2d(x, filters, padding=WINDOW // 2).chunk(2, 1)
    maps = torch.cat([torch.hypot(even, odd), x], 1)
    kernel = blur.expand(maps.shape[1], 1, -1, -1)
    sampled = F.conv2d(maps, kernel, stride=STRIDE, padding=3, groups=maps.shape[1])
    return sampled.flatten(1)


def _waves() -> Tensor:
    """Gabor filters: all even ones, then the odd ones; neither sees brightness alone."""
    reach = torch.arange(WINDOW) - (WINDOW - 1) / 2
    y, x = torch.meshgrid(reach, reach, indexing="ij")
    even, odd = [], []
    for scale in SCALES:
        for angle in (math.pi * k / DIRECTIONS for k in range(DIRECTIONS)):
            across = x * math.cos(angle) + y * math.sin(angle)
            along = y * math.cos(angle) - x * math.sin(angle)
            bell = torch.exp(-(across**2 + (along / ALONG) ** 2) / (2 * scale**2))
            bell = bell / bell.sum()
            wave = bell * torch.cos(WAVE * across / scale)
            even.append(wave - bell * wave.sum())
            odd.append(bell * torch.sin(WAVE * across / scale))
    return torch.stack(even + odd)[:, None]


def _gaussian(deviation: float) -> Tensor:
    reach = torch.arange(WINDOW) - (WINDOW - 1) / 2
    bell = torch.exp(-(reach**2) / (2 * deviation**2))
    bell = bell / bell.sum()
    return torch.outer(bell, bell)[None, None]
