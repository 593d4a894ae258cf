"""Drawn silhouettes: filled ellipses and boxes with an even, striped or shaded surface.

They have what things in pictures have (edges, areas, symmetry, texture) and show none of them.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.value import Outside, as_images, as_seed
from nescio.registry import outsides

Floats = NDArray[np.float32]
PARTS = 4  # at most so many ellipses and boxes in a picture
EACH, WHOLE = 10, 9  # numbers that a part and a picture take


@outsides.register
def shapes(shape: Sequence[int] = (1, 28, 28), *, seed: int = 0) -> Outside:
    """One to four ellipses and boxes, tapered, turned, often mirrored, with stripes or shading.

    All channels get the same picture, each at a brightness of its own.
    """
    sizes = as_images(shape)
    text = f"shapes({sizes}, seed={as_seed(seed)})"
    return Outside("shapes", sizes, None, text, partial(_make, sizes, seed))


def _make(shape: tuple[int, int, int], seed: int, indices: bits.Indices) -> Floats:
    channels, height, width = shape
    numbers = bits.rows(seed, bits.SHAPES, indices, PARTS * EACH + WHOLE + channels, np.float32)
    whole, tints = numbers[:, -channels - WHOLE : -channels, None, None], numbers[:, -channels:]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None]
    count = 1 + np.floor(PARTS * whole[:, 0])
    picture = np.zeros((len(indices), height, width), np.float32)
    for part in range(PARTS):
        drawn = _part(numbers[:, part * EACH : (part + 1) * EACH, None, None], x, y)
        np.maximum(picture, drawn * (part < count), out=picture)
    mirrored = np.maximum(picture, picture[:, :, ::-1])
    picture = np.where(whole[:, 1] < 0.4, mirrored, picture)
    picture *= _surface(whole, x, y)
    ground = np.where(whole[:, 7] < 0.15, 0.8 * whole[:, 8], np.float32(0))
    np.maximum(picture, ground, out=picture)
    brightness = 1.0 if channels == 1 else 0.3 + 0.7 * tints
    tinted = np.broadcast_to(brightness, tints.shape)[:, :, None, None]
    coloured: Floats = (picture[:, None] * tinted).astype(np.float32, copy=False)
    return coloured


def _part(u: Floats, x: Floats, y: Floats) -> Floats:
    """One ellipse (two in five) or box, `(n, H, W)`, with a soft edge; half of them upright."""
    across, down = x - (1.2 * u[:, 0] - 0.6), y - (1.2 * u[:, 1] - 0.6)
    wide, high = 0.12 + 0.75 * u[:, 2], 0.12 + 0.75 * u[:, 3]
    angle = math.pi * np.where(u[:, 4] < 0.5, np.float32(0), 2 * u[:, 4] - 1)
    along = (across * np.cos(angle) + down * np.sin(angle)) / wide
    other = (down * np.cos(angle) - across * np.sin(angle)) / high
    along /= np.maximum(1 + 0.6 * (2 * u[:, 5] - 1) * other, 0.2)
    ellipse = np.sqrt(along * along + other * other)
    box = np.maximum(np.abs(along), np.abs(other))
    distance = np.where(u[:, 6] < 0.4, ellipse, box)
    sharpness = (16 + 40 * u[:, 7]) * np.minimum(wide, high)
    edge = np.clip((1 - distance) * sharpness, -30, 30)
    drawn: Floats = (0.25 + 0.75 * u[:, 8]) / (1 + np.exp(-edge))
    return drawn


def _surface(u: Floats, x: Floats, y: Floats) -> Floats:
    """What the parts are multiplied by: 1, stripes, or a shade from one side to the other."""
    angle = math.pi * u[:, 2]
    way = x * np.cos(angle) + y * np.sin(angle)
    stripes = 0.5 + 0.5 * np.sin(way * (4 + 25 * u[:, 3]) + 6 * u[:, 4])
    shade = 0.5 + 0.5 * np.clip(way, -1, 1)
    depth = np.where(u[:, 5] < 0.7, u[:, 5] / 0.7, np.float32(0))
    surface: Floats = 1 - depth + depth * np.where(u[:, 6] < 0.5, stripes, shade)
    return surface
