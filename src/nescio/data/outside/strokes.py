"""Pen strokes at random: the look of handwriting, none of its signs."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.value import Outside, as_images, as_seed
from nescio.errors import NescioError
from nescio.registry import outsides

Floats = NDArray[np.float32]
STROKES, PIECES = 5, 6  # strokes at most; straight pieces that a bent one is made of
EACH = 9  # numbers that a stroke takes
FAR = np.float32(np.inf)


@outsides.register
def strokes(shape: Sequence[int] = (1, 28, 28), *, least: int = 3, seed: int = 0) -> Outside:
    """`least` to five strokes, straight or bent, most of them joined to the one before.

    Fewer than three could be a digit or a letter by chance.
    """
    sizes = as_images(shape)
    if not 1 <= least <= STROKES:
        raise NescioError(f"`least` must be in 1..{STROKES}, got {least}")
    text = f"strokes({sizes}, least={least}, seed={as_seed(seed)})"
    return Outside("strokes", sizes, None, text, partial(_make, sizes, least, seed))


def _make(shape: tuple[int, int, int], least: int, seed: int, indices: bits.Indices) -> Floats:
    channels, height, width = shape
    numbers = bits.rows(seed, bits.STROKES, indices, STROKES * EACH + 3, np.float32)
    count = least + np.floor((STROKES + 1 - least) * numbers[:, -1])
    y, x = np.mgrid[:height, :width].astype(np.float32)  # pixels
    nearest = np.full((len(indices), height, width), FAR)
    start, end = _ends(numbers[:, : STROKES * EACH].reshape(-1, STROKES, EACH), height, width)
    bend = np.where(numbers[:, 4 : STROKES * EACH : EACH] < 0.4, 1.0, 0.0)
    bend = (bend * (numbers[:, 5 : STROKES * EACH : EACH] - 0.5))[..., None]
    way = end - start
    middle = (start + end) / 2 + bend * np.stack([-way[..., 1], way[..., 0]], -1)
    for stroke in range(STROKES):
        used = stroke < count
        own = (start[used, stroke], middle[used, stroke], end[used, stroke])
        nearest[used] = np.minimum(nearest[used], _distance(own, x, y))
    size = min(height, width) / 28
    thick = size * (0.8 + 1.4 * numbers[:, -2, None, None])
    soft = size * (0.5 + numbers[:, -3, None, None])
    picture = np.clip((thick - nearest) / soft + 0.5, 0, 1).astype(np.float32)
    return np.repeat(picture[:, None], channels, axis=1)


def _ends(u: Floats, height: int, width: int) -> tuple[Floats, Floats]:
    """Where strokes begin and end, `(n, S, 2)` in pixels (across, down)."""
    size = np.array([width, height], np.float32)
    start, end = (0.15 + 0.7 * u[..., 0:2]) * size, (0.15 + 0.7 * u[..., 2:4]) * size
    kind = u[..., 6:7]  # of strokes of their own: a quarter upright, a quarter level
    lean = start + (2 * u[..., 2:4] - 1) * size / 28
    upright = np.stack([lean[..., 0], end[..., 1]], -1)
    level = np.stack([end[..., 0], lean[..., 1]], -1)
    end = np.where(kind < 0.25, upright, np.where(kind < 0.5, level, end))
    for stroke in range(1, u.shape[1]):  # joined to the end, the start or the middle of the last
        place = u[:, stroke, 8:9]
        share = np.where(place < 0.4, 1.0, np.where(place < 0.7, 0.0, 0.5))
        joint = start[:, stroke - 1] * (1 - share) + end[:, stroke - 1] * share
        start[:, stroke] = np.where(u[:, stroke, 7:8] < 0.6, joint, start[:, stroke])
    return start.astype(np.float32), end.astype(np.float32)


def _distance(curve: tuple[Floats, Floats, Floats], x: Floats, y: Floats) -> Floats:
    """Distance of every pixel to a quadratic curve, drawn as straight pieces: `(n, H, W)`."""
    start, middle, end = curve
    t = np.linspace(0, 1, PIECES + 1, dtype=np.float32)[:, None, None]
    points = (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t * t * end  # (P + 1, n, 2)
    nearest = np.full((len(start), *x.shape), FAR)
    for a, b in pairwise(points):
        way = b - a
        length = np.maximum((way * way).sum(-1), 1e-6)[:, None, None]
        across, down = x - a[:, 0, None, None], y - a[:, 1, None, None]
        share = (across * way[:, 0, None, None] + down * way[:, 1, None, None]) / length
        np.clip(share, 0, 1, out=share)
        across -= share * way[:, 0, None, None]
        down -= share * way[:, 1, None, None]
        np.minimum(nearest, across * across + down * down, out=nearest)
    distance: Floats = np.sqrt(nearest)
    return distance
