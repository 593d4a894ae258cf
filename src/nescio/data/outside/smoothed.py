"""Low-pass filtered noise (Hein et al., 2019, section 5): smooth, yet of full contrast."""

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.value import Outside, as_seed
from nescio.errors import NescioError
from nescio.registry import outsides

RADIUS = 7  # of the published kernel, 15 x 15


@outsides.register
def smoothed(outside: Outside, *, low: float = 1.0, high: float = 2.5, seed: int = 0) -> Outside:
    """Images of another out-distribution, blurred and stretched to the full range [0, 1].

    The filter is a Gaussian of 15 x 15 pixels with symmetric padding; its sigma is drawn for each
    image, uniform in [low, high]. Then the smallest value of an image, all channels together,
    becomes 0 and the largest 1. An image of one value has no range: it stays as it is.
    """
    if len(outside.shape) != 3:
        raise NescioError(
            f"only images of shape (C, H, W) can be smoothed; {outside.name!r} has inputs of shape "
            f"{outside.shape}"
        )
    if not 0 < low <= high <= RADIUS:
        raise NescioError(
            f"expected 0 < low <= high <= {RADIUS}, the radius of the filter, got low={low} and "
            f"high={high}"
        )
    text = f"smoothed({outside.description}, low={float(low)}, high={float(high)}, "
    make = partial(_make, outside, float(low), float(high), as_seed(seed))
    return Outside(
        f"smoothed {outside.name}", outside.shape, outside.size, f"{text}seed={seed})", make
    )


def _make(
    outside: Outside, low: float, high: float, seed: int, indices: bits.Indices
) -> NDArray[np.float32]:
    images = outside.make(indices)
    sigma = low + (high - low) * bits.rows(seed, bits.WIDTH, indices, 1, np.float64)  # (n, 1)
    return _stretched(images, sigma)


def _stretched(images: NDArray[np.float32], sigma: NDArray[np.float64]) -> NDArray[np.float32]:
    """Filter and rescale images (n, C, H, W).

    A stacked numpy product is one small product an image, so no image depends on its neighbours.
    """
    smallest = images.min((1, 2, 3), keepdims=True)
    above = images - smallest  # an image of one value is exactly 0, before and after the filter
    height, width = images.shape[2:]
    rows = _filters(sigma, height)
    columns = rows if width == height else _filters(sigma, width)
    blurred: NDArray[np.float32] = np.matmul(
        np.matmul(rows, above), columns
    )  # filters are symmetric matrices
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
