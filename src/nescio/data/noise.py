"""Noise images that are a function of (seed, index) only: the same in every pass and worker.

A slice of the noise equals the slice of the whole. `nescio.data.outside` has the same as values.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.data import bits
from nescio.errors import NescioError

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

    `low` and `high` are numbers, or arrays of shape `shape` with the range of each feature.
    """
    check_place(seed, start)
    if count < 1 or any(size < 1 for size in shape):
        raise NescioError(f"expected at least one image and pixel, got {count} of {tuple(shape)}")
    bottom, top = limits(low, high, shape)
    places = np.arange(start, start + count)
    return torch.from_numpy(uniform_images(places, tuple(shape), bottom, top, seed))


def uniform_images(
    indices: bits.Indices,
    shape: tuple[int, ...],
    bottom: NDArray[np.float32],
    top: NDArray[np.float32],
    seed: int,
) -> NDArray[np.float32]:
    """The uniform images at some indices, (n, *shape)."""
    values = bits.rows(seed, bits.NOISE, indices, math.prod(shape), np.float32)
    images: NDArray[np.float32] = values.reshape(-1, *shape)
    if np.any(bottom != 0) or np.any(top != 1):
        images *= top - bottom
        images += bottom
        np.clip(images, bottom, top, out=images)  # rounding may pass `top`
    return images


def permuted_pixels(x: Tensor, *, seed: int = 0, start: int = 0) -> Tensor:
    """Each image with its pixels in a random order that is a function of (seed, start + i).

    (N, C, H, W) keeps the channels of a pixel together; (N, F) permutes the features.
    """
    check_place(seed, start)
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
    """Cases of which each feature comes from another case: same ranges, no relations."""
    check_place(seed, 0)
    if x.ndim < 2 or x.numel() == 0:
        raise NescioError(f"x must be (N, F, ...) and not empty, got {tuple(x.shape)}")
    columns = x.flatten(1)
    order = _orders(columns.shape[1], len(x), seed, 0).T.to(x.device)  # a permutation a feature
    return columns.gather(0, order).reshape(x.shape)


def _orders(count: int, size: int, seed: int, start: int) -> Tensor:
    """Permutations (count, size)."""
    places = np.arange(start, start + count)
    return torch.from_numpy(bits.orders(seed, bits.ORDER, places, size))


def limits(
    low: ArrayLike | Tensor, high: ArrayLike | Tensor, shape: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The range as two arrays: one number, or one for each feature."""
    bottom, top = _limit("low", low, shape), _limit("high", high, shape)
    if not np.all(bottom <= top):
        raise NescioError(f"`low` must not be above `high`, got {low!r} and {high!r}")
    return bottom, top


def _limit(name: str, given: ArrayLike | Tensor, shape: Sequence[int]) -> NDArray[np.float32]:
    values: Any = given.detach().cpu().numpy() if isinstance(given, Tensor) else given
    limit = np.asarray(values, dtype=np.float32)
    if limit.ndim and limit.shape != tuple(shape):
        raise NescioError(
            f"`{name}` must be a number or have the shape {tuple(shape)} of one image, "
            f"got {limit.shape}"
        )
    if not np.all(np.isfinite(limit)):
        raise NescioError(f"`{name}` must be finite, got {given!r}")
    return limit


def check_place(seed: int, start: int = 0) -> None:
    """Refuse a negative seed or first index."""
    if seed < 0 or start < 0:
        raise NescioError(f"`seed` and `start` must be 0 or more, got {seed} and {start}")
