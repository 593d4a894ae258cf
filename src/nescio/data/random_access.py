"""Random numbers by (seed, index): the i-th noise input is the same in every pass.

Row i of a stream is a function of (seed, stream, i) only. The bits come from Philox, a
counter-based generator, so row i needs none of its predecessors and is the same in every pass,
batch and worker; a slice of the noise equals the slice of the whole. `nescio.data.ood` has the
same as values.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.core import NescioError

# Streams of a seed, so that a noise image and a permutation share no bits.
NOISE, ORDER, WIDTH, SOURCE, CONTRAST, PATCH, PATCH_SOURCE, OVERLAY = range(8)
SHAPES, STROKES, SHUFFLE = range(8, 11)

Indices = NDArray[np.int64]

CYCLE = 1 << 256  # steps of the counter
STEP_BYTES = 32  # bits of one step
INDEX_BITS = np.uint64(11)  # of a 64-bit sort key; the other 53 are random
LONGEST = 1 << 11


def rows(
    seed: int,
    stream: int,
    indices: Indices,
    size: int,
    kind: type[np.float32] | type[np.float64] | type[np.uint64],
) -> NDArray[Any]:
    """Rows (n, size) of a stream: floats uniform in [0, 1), or 64 random bits each."""
    result = np.empty((len(indices), size), kind)
    bits = Philox(SeedSequence(seed, spawn_key=(stream,)))
    draw = Generator(bits)
    each = STEP_BYTES // result.itemsize
    position = 0
    for first, last in _runs(indices):
        step, skip = divmod(int(indices[first]) * size, each)
        count = skip + (last - first) * size
        bits.advance((step - position) % CYCLE)
        raw, dtype = kind is np.uint64, cast(Any, kind)
        values: Any = bits.random_raw(count) if raw else draw.random(count, dtype=dtype)
        position = step + -(-count // each)
        result[first:last] = values[skip:].reshape(-1, size)
    return result


def orders(seed: int, stream: int, indices: Indices, size: int) -> NDArray[np.int64]:
    """Permutations (n, size) of 0..size - 1: the order of 53-bit keys; equal keys keep theirs.

    Short rows carry the index in the low bits of the key: sorting such keys is far faster than
    `argsort`, and the result is the same.
    """
    keys = rows(seed, stream, indices, size, np.uint64)
    if size > LONGEST:
        keys >>= INDEX_BITS
        return np.argsort(keys, axis=1, kind="stable").astype(np.int64, copy=False)
    low = np.uint64(LONGEST - 1)
    keys &= ~low
    keys |= np.arange(size, dtype=np.uint64)
    keys.sort(axis=1)
    keys &= low
    return keys.view(np.int64)


def _runs(indices: Indices) -> Iterator[tuple[int, int]]:
    """Stretches of indices that follow one another, as bounds in the array."""
    if len(indices) == 0:
        return
    breaks = (np.flatnonzero(np.diff(indices) != 1) + 1).tolist()
    yield from zip([0, *breaks], [*breaks, len(indices)], strict=True)


BLOCK = 1 << 19  # sort keys of permutations drawn at a time


def uniform_noise(
    count: int,
    shape: Sequence[int],
    *,
    seed: int = 0,
    start: int = 0,
    low: ArrayLike | Tensor = 0.0,
    high: ArrayLike | Tensor = 1.0,
) -> Tensor:
    """Images of independent uniform pixels, numbers `start` to `start + count - 1` of a seed.

    count: number of images.
    shape: shape of one image.
    seed: seed of the random draws.
    start: index of the first image.
    low, high: ends of the range, numbers, or arrays of shape `shape` for each feature.
    """
    check_start(seed, start)
    if count < 1 or any(size < 1 for size in shape):
        raise NescioError(f"expected at least one image and pixel, got {count} of {tuple(shape)}")
    bottom, top = limits(low, high, shape)
    indices = np.arange(start, start + count)
    return torch.from_numpy(uniform_images(indices, tuple(shape), bottom, top, seed))


def uniform_images(
    indices: Indices,
    shape: tuple[int, ...],
    bottom: NDArray[np.float32],
    top: NDArray[np.float32],
    seed: int,
) -> NDArray[np.float32]:
    """The uniform images at some indices, (n, *shape)."""
    values = rows(seed, NOISE, indices, math.prod(shape), np.float32)
    images: NDArray[np.float32] = values.reshape(-1, *shape)
    if np.any(bottom != 0) or np.any(top != 1):
        images *= top - bottom
        images += bottom
        np.clip(images, bottom, top, out=images)  # rounding may pass `top`
    return images


def permuted_pixels(x: Tensor, *, seed: int = 0, start: int = 0) -> Tensor:
    """Each image with its pixels in a random order that is a function of (seed, start + i).

    (N, C, H, W) keeps the channels of a pixel together; (N, F) permutes the features.

    x: images or vectors.
    seed: seed of the random draws.
    start: index of the first image.
    """
    check_start(seed, start)
    if x.ndim not in (2, 4) or x.numel() == 0:
        raise NescioError(
            f"x must be (N, F) or (N, C, H, W) and not empty, got {tuple(x.shape)}; "
            "add a channel axis to (N, H, W)"
        )
    pixels = x.reshape(len(x), -1, x.shape[-1] if x.ndim == 2 else x[0, 0].numel())  # (N, C, P)
    result = torch.empty_like(pixels)
    step = max(1, BLOCK // pixels.shape[2])
    for first in range(0, len(x), step):
        part = pixels[first : first + step]
        order = _orders(len(part), part.shape[2], seed, start + first).to(x.device)
        result[first : first + step] = part.gather(2, order[:, None].expand_as(part))
    return result.reshape(x.shape)


def shuffled_features(x: Tensor, *, seed: int = 0) -> Tensor:
    """Samples of which each feature comes from another sample: same ranges, no relations.

    x: inputs, `(N, F, ...)`.
    seed: seed of the random draws.
    """
    check_start(seed, 0)
    if x.ndim < 2 or x.numel() == 0:
        raise NescioError(f"x must be (N, F, ...) and not empty, got {tuple(x.shape)}")
    columns = x.flatten(1)
    order = _orders(columns.shape[1], len(x), seed, 0).T.to(x.device)  # a permutation per feature
    return columns.gather(0, order).reshape(x.shape)


def _orders(count: int, size: int, seed: int, start: int) -> Tensor:
    """Permutations (count, size)."""
    indices = np.arange(start, start + count)
    return torch.from_numpy(orders(seed, ORDER, indices, size))


def limits(
    low: ArrayLike | Tensor, high: ArrayLike | Tensor, shape: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The range as two arrays: one number, or one for each feature."""
    bottom, top = _limit("low", low, shape), _limit("high", high, shape)
    if not np.all(bottom <= top):
        raise NescioError(f"`low` must not be above `high`, got {low!r} and {high!r}")
    return bottom, top


def _limit(name: str, value: ArrayLike | Tensor, shape: Sequence[int]) -> NDArray[np.float32]:
    values: Any = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    limit = np.asarray(values, dtype=np.float32)
    if limit.ndim and limit.shape != tuple(shape):
        raise NescioError(
            f"`{name}` must be a number or have the shape {tuple(shape)} of one image, "
            f"got {limit.shape}"
        )
    if not np.all(np.isfinite(limit)):
        raise NescioError(f"`{name}` must be finite, got {value!r}")
    return limit


def check_start(seed: int, start: int = 0) -> None:
    """Refuse a negative seed or first index."""
    if seed < 0 or start < 0:
        raise NescioError(f"`seed` and `start` must be 0 or more, got {seed} and {start}")
