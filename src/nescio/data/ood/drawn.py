"""OOD images that are drawn or put together: shapes, strokes, patches, overlays, faded images."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nescio.core import Array, NescioError
from nescio.core.registry import ood_sources
from nescio.data import random_access as draw
from nescio.data.ood.source import OODSource, Source, as_images, as_seed, as_source, floats
from nescio.data.random_access import Indices


@ood_sources.register
def faded(x: Array, *, low: float = 0.05, high: float = 0.4, seed: int = 0) -> OODSource:
    """Images of reduced contrast: each channel moves towards its mean.

    Input i is made from image i mod N of `x` in an order given by `seed`. The defaults span the
    severities of Hendrycks and Dietterich (2019).

    x: images, `(N, C, H, W)`; bytes are read as 0 to 1.
    low, high: range of the share of the contrast that remains, which is drawn uniformly for each
      input.
    seed: seed of the random draws.
    """
    source = as_source(x, images=True)
    if not 0 <= low <= high <= 1:
        raise NescioError(f"expected 0 <= low <= high <= 1, got low={low} and high={high}")
    text = f"faded({source.text}, low={float(low)}, high={float(high)}, seed={as_seed(seed)})"
    make = partial(_make, source, source.order(seed), float(low), float(high), seed)
    return OODSource(name="faded", shape=source.shape, description=text, make=make)


def _make(
    source: Source, order: NDArray[np.int64], low: float, high: float, seed: int, indices: Indices
) -> NDArray[np.float32]:
    images = floats(source.values[order[indices % len(order)]]).astype(np.float64)
    mean = images.mean((2, 3), keepdims=True)
    rest = low + (high - low) * draw.rows(seed, draw.CONTRAST, indices, 1, np.float64)
    images -= mean
    images *= rest[:, :, None, None]
    images += mean
    return images.astype(np.float32)


@ood_sources.register
def overlaid(x: Array, *, shift: int = 4, seed: int = 0) -> OODSource:
    """Two different images on top of each other: the larger value of each pixel.

    Input i is made from image i mod N of `x` in an order given by `seed` and from another one drawn
    by (seed, i). Two images of one class may still look like that class.

    x: images, `(N, C, H, W)`; bytes are read as 0 to 1.
    shift: the largest move of each image up or down and left or right, in pixels; what leaves the
      picture is lost, zeros come in.
    seed: seed of the random draws.
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
    make = partial(_make_overlaid, source, source.order(seed), shift, seed)
    return OODSource(name="overlaid", shape=source.shape, description=text, make=make)


def _make_overlaid(
    source: Source, order: NDArray[np.int64], shift: int, seed: int, indices: Indices
) -> NDArray[np.float32]:
    drawn = draw.rows(seed, draw.OVERLAY, indices, 5, np.uint64)  # another image, two moves
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


@ood_sources.register
def patches(x: Array, *, grid: int = 4, seed: int = 0) -> OODSource:
    """Images put together from grid x grid patches of as many images, each at another position.

    The patches of input i are in an order drawn by (seed, i); each is cut from an image drawn
    with replacement, so the patches of all positions are used, and none twice.

    x: images, `(N, C, H, W)`; bytes are read as 0 to 1.
    grid: number of patches each way; it must divide the height and the width.
    seed: seed of the random draws.
    """
    source = as_source(x, images=True)
    _, height, width = source.shape
    if grid < 2 or height % grid or width % grid:
        raise NescioError(
            f"`grid` must be 2 or more and divide the height and width of {height} x {width} "
            f"pixels, got {grid}"
        )
    text = f"patches({source.text}, grid={grid}, seed={as_seed(seed)})"
    make = partial(_make_patches, source, grid, seed)
    return OODSource(name="patches", shape=source.shape, description=text, make=make)


def _make_patches(source: Source, grid: int, seed: int, indices: Indices) -> NDArray[np.float32]:
    cells = grid * grid
    order = draw.orders(seed, draw.PATCH, indices, cells)  # (n, G): the patch at each position
    drawn = draw.rows(seed, draw.PATCH_SOURCE, indices, cells, np.uint64)
    image = (drawn % np.uint64(len(source.values))).astype(np.int64)
    channels, height, width = source.shape
    cut = source.values.reshape(-1, channels, grid, height // grid, grid, width // grid)
    chosen = cut[image, :, order // grid, :, order % grid]  # (n, G, C, h, w)
    placed = chosen.reshape(-1, grid, grid, *chosen.shape[2:]).transpose(0, 3, 1, 4, 2, 5)
    return floats(placed.reshape(-1, *source.shape))


Floats = NDArray[np.float32]
PARTS = 4  # ellipses and boxes in a picture, at most
PART_NUMBERS, WHOLE = 10, 9  # numbers that a part and a picture take


@ood_sources.register
def shapes(shape: Sequence[int] = (1, 28, 28), *, seed: int = 0) -> OODSource:
    """One to four ellipses and boxes, tapered, turned, often mirrored, with stripes or shading.

    All channels get the same picture, each at a different brightness.

    shape: shape of one image, (C, H, W).
    seed: seed of the random draws.
    """
    sizes = as_images(shape)
    text = f"shapes({sizes}, seed={as_seed(seed)})"
    make = partial(_make_shapes, sizes, seed)
    return OODSource(name="shapes", shape=sizes, description=text, make=make)


def _make_shapes(shape: tuple[int, int, int], seed: int, indices: Indices) -> Floats:
    channels, height, width = shape
    numbers = draw.rows(
        seed, draw.SHAPES, indices, PARTS * PART_NUMBERS + WHOLE + channels, np.float32
    )
    whole, tints = numbers[:, -channels - WHOLE : -channels, None, None], numbers[:, -channels:]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None]
    count = 1 + np.floor(PARTS * whole[:, 0])
    picture = np.zeros((len(indices), height, width), np.float32)
    for part in range(PARTS):
        drawn = _part(numbers[:, part * PART_NUMBERS : (part + 1) * PART_NUMBERS, None, None], x, y)
        np.maximum(picture, drawn * (part < count), out=picture)
    mirrored = np.maximum(picture, picture[:, :, ::-1])
    picture = np.where(whole[:, 1] < 0.4, mirrored, picture)
    picture *= _surface(whole, x, y)
    ground = np.where(whole[:, 7] < 0.15, 0.8 * whole[:, 8], np.float32(0))
    np.maximum(picture, ground, out=picture)
    brightness = 1.0 if channels == 1 else 0.3 + 0.7 * tints
    tinted = np.broadcast_to(brightness, tints.shape)[:, :, None, None]
    return np.asarray((picture[:, None] * tinted).astype(np.float32, copy=False))


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
    return np.asarray((0.25 + 0.75 * u[:, 8]) / (1 + np.exp(-edge)))


def _surface(u: Floats, x: Floats, y: Floats) -> Floats:
    """What the parts are multiplied by: 1, stripes, or a shade from one side to the other."""
    angle = math.pi * u[:, 2]
    way = x * np.cos(angle) + y * np.sin(angle)
    stripes = 0.5 + 0.5 * np.sin(way * (4 + 25 * u[:, 3]) + 6 * u[:, 4])
    shade = 0.5 + 0.5 * np.clip(way, -1, 1)
    depth = np.where(u[:, 5] < 0.7, u[:, 5] / 0.7, np.float32(0))
    return np.asarray(1 - depth + depth * np.where(u[:, 6] < 0.5, stripes, shade))


STROKES, PIECES = 5, 6  # strokes at most; straight pieces that a bent one is made of
STROKE_NUMBERS = 9  # that a stroke takes
FAR = np.float32(np.inf)


@ood_sources.register
def strokes(shape: Sequence[int] = (1, 28, 28), *, least: int = 3, seed: int = 0) -> OODSource:
    """`least` to five strokes, straight or bent, most of them joined to the one before.

    Fewer than three could be a digit or a letter by chance.

    shape: shape of one image, (C, H, W).
    least: smallest number of strokes, from 1 to 5.
    seed: seed of the random draws.
    """
    sizes = as_images(shape)
    if not 1 <= least <= STROKES:
        raise NescioError(f"`least` must be in 1..{STROKES}, got {least}")
    text = f"strokes({sizes}, least={least}, seed={as_seed(seed)})"
    make = partial(_make_strokes, sizes, least, seed)
    return OODSource(name="strokes", shape=sizes, description=text, make=make)


def _make_strokes(shape: tuple[int, int, int], least: int, seed: int, indices: Indices) -> Floats:
    channels, height, width = shape
    numbers = draw.rows(seed, draw.STROKES, indices, STROKES * STROKE_NUMBERS + 3, np.float32)
    count = least + np.floor((STROKES + 1 - least) * numbers[:, -1])
    y, x = np.mgrid[:height, :width].astype(np.float32)  # pixels
    nearest = np.full((len(indices), height, width), FAR)
    start, end = _ends(
        numbers[:, : STROKES * STROKE_NUMBERS].reshape(-1, STROKES, STROKE_NUMBERS), height, width
    )
    bend = np.where(numbers[:, 4 : STROKES * STROKE_NUMBERS : STROKE_NUMBERS] < 0.4, 1.0, 0.0)
    bend = (bend * (numbers[:, 5 : STROKES * STROKE_NUMBERS : STROKE_NUMBERS] - 0.5))[..., None]
    way = end - start
    middle = (start + end) / 2 + bend * np.stack([-way[..., 1], way[..., 0]], -1)
    for stroke in range(STROKES):
        used = stroke < count
        curve = (start[used, stroke], middle[used, stroke], end[used, stroke])
        nearest[used] = np.minimum(nearest[used], _distance(curve, x, y))
    size = min(height, width) / 28
    thick = size * (0.8 + 1.4 * numbers[:, -2, None, None])
    soft = size * (0.5 + numbers[:, -3, None, None])
    picture = np.clip((thick - nearest) / soft + 0.5, 0, 1).astype(np.float32)
    return np.repeat(picture[:, None], channels, axis=1)


def _ends(u: Floats, height: int, width: int) -> tuple[Floats, Floats]:
    """Where strokes begin and end, `(n, S, 2)` in pixels (across, down)."""
    size = np.array([width, height], np.float32)
    start, end = (0.15 + 0.7 * u[..., 0:2]) * size, (0.15 + 0.7 * u[..., 2:4]) * size
    kind = u[..., 6:7]  # of separate strokes: a quarter upright, a quarter level
    lean = start + (2 * u[..., 2:4] - 1) * size / 28
    upright = np.stack([lean[..., 0], end[..., 1]], -1)
    level = np.stack([end[..., 0], lean[..., 1]], -1)
    end = np.where(kind < 0.25, upright, np.where(kind < 0.5, level, end))
    for stroke in range(1, u.shape[1]):  # joined to the end, the start or the middle of the last
        joined = u[:, stroke, 8:9]
        share = np.where(joined < 0.4, 1.0, np.where(joined < 0.7, 0.0, 0.5))
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
    return np.asarray(np.sqrt(nearest))
