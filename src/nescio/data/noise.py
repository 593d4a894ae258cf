"""Noise images that are a function of (seed, index) only: the same in every pass and worker.

The bits come from Philox, a counter-based generator, so image i is found without its
predecessors: a slice of the noise equals the slice of the whole.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.errors import NescioError

NOISE, ORDER = 0, 1  # streams of a seed, so that a noise image and a permutation share no bits
BLOCK = 1 << 19  # sort keys of permutations drawn at a time
PHILOX_BYTES = 32  # one step of the counter


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

    `low` and `high` are numbers, or arrays of shape `shape` with the range of each feature.
    """
    _check_place(seed, start)
    if count < 1 or any(size < 1 for size in shape):
        raise NescioError(f"expected at least one image and pixel, got {count} of {tuple(shape)}")
    bottom, top = _limit("low", low, shape), _limit("high", high, shape)
    if not np.all(bottom <= top):
        raise NescioError(f"`low` must not be above `high`, got {low!r} and {high!r}")
    size = math.prod(shape)
    values = _uniform(seed, NOISE, start * size, count * size, np.float32)
    images = values.reshape(count, *shape)
    images *= top - bottom
    images += bottom
    return torch.from_numpy(np.clip(images, bottom, top, out=images))  # rounding may pass `top`


def permuted_pixels(x: Tensor, *, seed: int = 0, start: int = 0) -> Tensor:
    """Each image with its pixels in a random order that is a function of (seed, start + i).

    (N, C, H, W) keeps the channels of a pixel together; (N, F) permutes the features.
    """
    _check_place(seed, start)
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


def _orders(count: int, size: int, seed: int, start: int) -> Tensor:
    """Permutations (count, size): the order of 53-bit keys, so ties hardly ever matter."""
    keys = _uniform(seed, ORDER, start * size, count * size, np.float64).reshape(count, size)
    return torch.from_numpy(np.argsort(keys, axis=1, kind="stable"))


def _uniform(
    seed: int, stream: int, offset: int, count: int, kind: type[np.float32] | type[np.float64]
) -> NDArray[Any]:
    """Numbers `offset` to `offset + count - 1` of a stream, uniform in [0, 1)."""
    steps, skip = divmod(offset, PHILOX_BYTES // np.dtype(kind).itemsize)
    bits = Philox(SeedSequence(seed, spawn_key=(stream,)))
    bits.advance(steps)
    return Generator(bits).random(skip + count, dtype=kind)[skip:]


def _limit(name: str, given: ArrayLike | Tensor, shape: Sequence[int]) -> NDArray[np.float32]:
    values = given.detach().cpu().numpy() if isinstance(given, Tensor) else given
    limit = np.asarray(values, dtype=np.float32)
    if limit.ndim and limit.shape != tuple(shape):
        raise NescioError(
            f"`{name}` must be a number or have the shape {tuple(shape)} of one image, "
            f"got {limit.shape}"
        )
    if not np.all(np.isfinite(limit)):
        raise NescioError(f"`{name}` must be finite, got {given!r}")
    return limit


def _check_place(seed: int, start: int) -> None:
    if seed < 0 or start < 0:
        raise NescioError(f"`seed` and `start` must be 0 or more, got {seed} and {start}")


def shuffled_features(x: Tensor, *, seed: int = 0) -> Tensor:
    """Cases of which each feature comes from another case: same ranges, no relations."""
    _check_place(seed, 0)
    if x.ndim < 2 or x.numel() == 0:
        raise NescioError(f"x must be (N, F, ...) and not empty, got {tuple(x.shape)}")
    columns = x.flatten(1)
    order = _orders(columns.shape[1], len(x), seed, 0).T.to(x.device)  # a permutation a feature
    return columns.gather(0, order).reshape(x.shape)
