"""Noise: uniform, smoothed, permuted pixels, shuffled features, and the papers' mixture of them.

As in Hein et al. (2019), section 5; shuffled features are for tables.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.core import Array, NescioError, as_batch, as_tensor
from nescio.core.registry import ood_sources
from nescio.data import random_access as draw
from nescio.data.ood.source import OODSource, Source, as_seed, as_source, floats, mixture, shown
from nescio.data.random_access import Indices, limits, uniform_images


@ood_sources.register
def permuted(x: Array, *, seed: int = 0) -> OODSource:
    """Training images with their pixels shuffled, the channels of a pixel together.

    Input i is image i mod N of `x` in an order given by `seed`, its pixels in an order given by
    (seed, i): every image occurs equally often, with different orders. (N, F) shuffles features.

    x: images or vectors.
    seed: seed of the random draws.
    """
    source = as_source(x, images=False)
    if source.values.ndim not in (2, 4):
        raise NescioError(
            f"x must be (N, F) or (N, C, H, W), got {source.values.shape}; "
            "add a channel axis to (N, H, W)"
        )
    text = f"permuted({source.text}, seed={as_seed(seed)})"
    make = partial(_make, source, source.order(seed), seed)
    return OODSource(name="permuted", shape=source.shape, description=text, make=make)


def _make(
    source: Source, order: NDArray[np.int64], seed: int, indices: Indices
) -> NDArray[np.float32]:
    channels = source.shape[0] if len(source.shape) == 3 else 1
    pixels = source.values[0].size // channels
    first = order[indices % len(order)] * (channels * pixels)
    pixel = draw.orders(seed, draw.ORDER, indices, pixels)[:, None]
    chosen = pixel + (first[:, None] + np.arange(channels) * pixels)[:, :, None]  # (n, C, P)
    return floats(source.values.reshape(-1)[chosen]).reshape(-1, *source.shape)


RADIUS = 7  # of the published kernel, 15 x 15


@ood_sources.register
def smoothed(ood: OODSource, *, low: float = 1.0, high: float = 2.5, seed: int = 0) -> OODSource:
    """Images of another OOD source, blurred and stretched to the full range [0, 1].

    The filter is a Gaussian of 15 x 15 pixels with symmetric padding. Then the smallest value of an
    image, all channels together, becomes 0 and the largest 1. An image of one value has no range:
    it stays as it is.

    ood: the source of the images.
    low, high: range of the filter's sigma, in pixels, which is drawn uniformly for each image.
    seed: seed of the random draws.
    """
    if len(ood.shape) != 3:
        raise NescioError(
            f"only images of shape (C, H, W) can be smoothed; {ood.name!r} has inputs of shape "
            f"{ood.shape}"
        )
    if not 0 < low <= high <= RADIUS:
        raise NescioError(
            f"expected 0 < low <= high <= {RADIUS}, the radius of the filter, got low={low} and "
            f"high={high}"
        )
    make = partial(_make_smoothed, ood, float(low), float(high), as_seed(seed))
    text = f"smoothed({ood.description}, low={float(low)}, high={float(high)}, seed={seed})"
    return replace(ood, name=f"smoothed {ood.name}", description=text, make=make)


def _make_smoothed(
    ood: OODSource, low: float, high: float, seed: int, indices: Indices
) -> NDArray[np.float32]:
    images = ood.make(indices)
    sigma = low + (high - low) * draw.rows(seed, draw.WIDTH, indices, 1, np.float64)  # (n, 1)
    return _stretched(images, sigma)


def _stretched(images: NDArray[np.float32], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
    """Filter and rescale images (n, C, H, W).

    A stacked numpy product is one small product per image, so no image depends on its neighbors.
    """
    smallest = images.min((1, 2, 3), keepdims=True)
    above = images - smallest  # an image of one value is exactly 0, before and after the filter
    height, width = images.shape[2:]
    rows = _filters(sigma, height)
    columns = rows if width == height else _filters(sigma, width)
    blurred: NDArray[np.float32] = rows @ above @ columns  # filters are symmetric matrices
    blurred -= blurred.min((1, 2, 3), keepdims=True)
    largest = blurred.max((1, 2, 3), keepdims=True)
    flat = largest[:, 0, 0, 0] == 0
    largest[flat] = 1
    blurred /= largest
    blurred[flat] = images[flat]
    return blurred


def _filters(sigma: NDArray[np.float64], size: int) -> NDArray[np.float32]:
    """Filter matrices (n, 1, size, size), up to a factor: stretching takes it away again."""
    steps = np.arange(RADIUS + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2).astype(np.float32)  # (n, 8)
    matrices: NDArray[np.float32] = np.matmul(weights[:, None], _taps(size))
    return matrices.reshape(-1, 1, size, size)


@lru_cache(maxsize=8)
def _taps(size: int) -> NDArray[np.float32]:
    """How often pixel j stands k steps from pixel i, edges mirrored: (8, size * size)."""
    mirrored = np.pad(np.arange(size), RADIUS, mode="symmetric")
    counts = np.zeros((RADIUS + 1, size, size), np.float32)
    for step in range(-RADIUS, RADIUS + 1):
        pixel = np.arange(size)
        counts[abs(step), pixel, mirrored[pixel + RADIUS + step]] += 1
    return counts.reshape(RADIUS + 1, -1)


@ood_sources.register
def uniform(
    shape: Sequence[int],
    *,
    low: ArrayLike | Tensor = 0.0,
    high: ArrayLike | Tensor = 1.0,
    seed: int = 0,
) -> OODSource:
    """Independent uniform pixels.

    Input i is image i of `uniform_noise`.

    >>> uniform((1, 28, 28)).take(2).shape
    torch.Size([2, 1, 28, 28])

    shape: shape of one input.
    low, high: ends of the range, numbers, or arrays of shape `shape` for each feature.
    seed: seed of the random draws.
    """
    sizes = tuple(map(int, shape))
    if not sizes or min(sizes) < 1:
        raise NescioError(
            f"`shape` must be that of one input, such as (1, 28, 28), got {tuple(shape)}"
        )
    bottom, top = limits(low, high, sizes)
    text = f"uniform({sizes}, low={shown(bottom)}, high={shown(top)}, seed={as_seed(seed)})"
    make = partial(uniform_images, shape=sizes, bottom=bottom, top=top, seed=seed)
    return OODSource(name="uniform", shape=sizes, description=text, make=make)


ROUNDING = 1e-6


@ood_sources.register
def paper_noise(x: Array, *, seed: int = 0) -> OODSource:
    """Half uniform noise, half pixel-permuted images of `x`, both smoothed with sigma in [1, 2.5].

    Even indices are uniform noise, odd ones permuted images. The published code draws one sigma per
    batch; here each image has a sigma, so that it does not depend on its batch. The noise is in
    [0, 1], so the images must be.

    x: images, `(N, C, H, W)`, in [0, 1]; bytes are read as 0 to 1.
    seed: seed of the random draws.
    """
    shuffled = permuted(x, seed=seed)
    noise = smoothed(mixture([uniform(shuffled.shape, seed=seed), shuffled]), seed=seed)
    lowest, highest = (as_batch(end).item() for end in as_tensor(x, "x").aminmax())
    if lowest < -ROUNDING or highest > 1 + ROUNDING:
        raise NescioError(
            f"paper_noise makes images in [0, 1], those of x range from {lowest:g} to {highest:g}; "
            "scale x to [0, 1] and the noise back with ood.scaled, or normalize in the network"
        )
    return replace(noise, name="paper_noise", description=f"paper_noise({shuffled.description})")


@ood_sources.register
def shuffled(x: Array, *, seed: int = 0) -> OODSource:
    """Inputs of which each feature comes from another sample: same ranges, no relations.

    The samples are drawn by (seed, i), with replacement. Of few features that depend little on each
    other, many of these inputs look like `x`.

    x: inputs, `(N, ...)`.
    seed: seed of the random draws.
    """
    source = as_source(x, images=False)
    text = f"shuffled({source.text}, seed={as_seed(seed)})"
    make = partial(_make_shuffled, source, seed)
    return OODSource(name="shuffled", shape=source.shape, description=text, make=make)


def _make_shuffled(source: Source, seed: int, indices: Indices) -> NDArray[np.float32]:
    table = source.values.reshape(len(source.values), -1)
    features = table.shape[1]
    drawn = draw.rows(seed, draw.SHUFFLE, indices, features, np.uint64)
    sample = (drawn % np.uint64(len(table))).astype(np.int64)
    return floats(table[sample, np.arange(features)]).reshape(-1, *source.shape)
