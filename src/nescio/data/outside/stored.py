"""Inputs of an out-distribution made once and kept as bytes, as image files keep them."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.source import floats
from nescio.data.outside.value import Outside
from nescio.errors import NescioError
from nescio.registry import outsides

PIECE = 4096  # made at a time


@outsides.register
def stored(outside: Outside, count: int, *, start: int = 0) -> Outside:
    """The first `count` images of another out-distribution, made once and rounded to bytes.

    For training, where an image comes back in every epoch. One byte a pixel is kept in memory.
    """
    if len(outside.shape) != 3:
        raise NescioError(f"only images (C, H, W) are stored as bytes, got {outside.shape}")
    if count < 1 or start < 0:
        raise NescioError(f"expected a count of 1 or more from 0 or more, got {count} from {start}")
    values = np.empty((count, *outside.shape), np.uint8)
    for first in range(0, count, PIECE):
        last = min(first + PIECE, count)
        made = outside(torch.arange(start + first, start + last)).numpy()
        if made.min() < 0 or made.max() > 1:
            raise NescioError(f"{outside.name!r} leaves the range [0, 1] that bytes can hold")
        values[first:last] = np.rint(255 * made)
    text = f"stored({outside.description}, {count=}, {start=})"
    return Outside(outside.name, outside.shape, count, text, partial(_make, values))


def _make(values: NDArray[np.uint8], indices: bits.Indices) -> NDArray[np.float32]:
    return floats(values[indices])
