"""Patches of images put together at random: the details of the data, none of its shapes."""

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
def patches(x: Array, *, grid: int = 4, seed: int = 0) -> Outside:
    """Images put together from grid x grid patches of as many images, each at another place.

    The patches of input i stand in an order drawn by (seed, i); each is cut from an image of its
    own draw (with replacement), so all patches of a place are used, and none twice.
    """
    source = as_source(x, images=True)
    _, height, width = source.shape
    if grid < 2 or height % grid or width % grid:
        raise NescioError(
            f"`grid` must be 2 or more and divide the height and width of {height} x {width} "
            f"pixels, got {grid}"
        )
    text = f"patches({source.text}, grid={grid}, seed={as_seed(seed)})"
    return Outside("patches", source.shape, None, text, partial(_make, source, grid, seed))


def _make(source: Source, grid: int, seed: int, indices: bits.Indices) -> NDArray[np.float32]:
    cells = grid * grid
    order = bits.orders(seed, bits.PATCH, indices, cells)  # (n, G): the patch at each place
    drawn = bits.rows(seed, bits.PATCH_SOURCE, indices, cells, np.uint64)
    image = (drawn % np.uint64(len(source.values))).astype(np.int64)
    channels, height, width = source.shape
    cut = source.values.reshape(-1, channels, grid, height // grid, grid, width // grid)
    chosen = cut[image, :, order // grid, :, order % grid]  # (n, G, C, h, w)
    placed = chosen.reshape(-1, grid, grid, *chosen.shape[2:]).transpose(0, 3, 1, 4, 2, 5)
    return floats(placed.reshape(-1, *source.shape))
