"""Two images on top of each other: the strokes of the data, of no class."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.checks import Array
from nescio.data import bits
from nescio.data.outside.source import Source, as_source, floats
from nescio.data.outside.value import Outside, as_seed
from nescio.errors import NescioError
from nescio.registry import outsides


@outsides.register
def overlaid(x: Array, *, shift: int = 4, seed: int = 0) -> Outside:
    """Two different images on top of each other: the larger value of each pixel.

    Each is moved by up to `shift` pixels up or down and left or right; what leaves the picture is
    lost, zeros come in. Input i is made from image i mod N of `x` in an order given by `seed` and
    from another one drawn by (seed, i). Two images of one class may still look like that class.
    """
    source = as_source(x, images=True)
    if len(source.values) < 2:
        raise NescioError("two different images are laid over each other; x has only one")
    if not 0 <= shift < min(source.shape[1:]):
        raise NescioError(
            f"`shift` must be in 0..{min(source.shape[1:]) - 1} for images of shape "
            f"{source.shape}, got {shift}"
        )
    text = f"overlaid({source.text}, shift={shift}, seed={as_seed(seed)})"
    make = partial(_make, source, source.order(seed), shift, seed)
    return Outside("overlaid", source.shape, None, text, make)


def _make(
    source: Source, order: NDArray[np.int64], shift: int, seed: int, indices: bits.Indices
) -> NDArray[np.float32]:
    drawn = bits.rows(seed, bits.OVERLAY, indices, 5, np.uint64)  # another image, two moves
    first = order[indices % len(order)]
    away = 1 + (drawn[:, 0] % np.uint64(len(order) - 1)).astype(np.int64)
    moves = (drawn[:, 1:] % np.uint64(2 * shift + 1)).astype(np.int64) - shift
    below = _moved(source, first, moves[:, :2], shift)
    above = _moved(source, (first + away) % len(order), moves[:, 2:], shift)
    return floats(np.maximum(below, above, out=below))


def _moved(
    source: Source, images: NDArray[np.int64], moves: NDArray[np.int64], shift: int
) -> NDArray[np.float32]:
    """Images moved down and right by `moves` (n, 2), within a frame of zeros."""
    _, height, width = source.shape
    framed = np.pad(source.values[images], ((0, 0), (0, 0), (shift, shift), (shift, shift)))
    down = shift - moves[:, :1] + np.arange(height)  # (n, H)
    right = shift - moves[:, 1:] + np.arange(width)  # (n, W)
    number = np.arange(len(images))[:, None, None]
    moved = framed[number, :, down[:, :, None], right[:, None]]  # (n, H, W, C)
    return np.ascontiguousarray(moved.transpose(0, 3, 1, 2))
