"""Images that have lost contrast (as in Hendrycks and Dietterich, 2019)."""

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
def faded(x: Array, *, low: float = 0.05, high: float = 0.4, seed: int = 0) -> Outside:
    """Images of reduced contrast: each channel moves towards its mean.

    The rest of the contrast, uniform in [low, high], is drawn for each input. Input i is made from
    image i mod N of `x` in an order given by `seed`. The defaults span the published severities.
    """
    source = as_source(x, images=True)
    if not 0 <= low <= high <= 1:
        raise NescioError(f"expected 0 <= low <= high <= 1, got low={low} and high={high}")
    text = f"faded({source.text}, low={float(low)}, high={float(high)}, seed={as_seed(seed)})"
    make = partial(_make, source, source.order(seed), float(low), float(high), seed)
    return Outside("faded", source.shape, None, text, make)


def _make(
    source: Source,
    order: NDArray[np.int64],
    low: float,
    high: float,
    seed: int,
    indices: bits.Indices,
) -> NDArray[np.float32]:
    images = floats(source.values[order[indices % len(order)]]).astype(np.float64)
    mean = images.mean((2, 3), keepdims=True)
    rest = low + (high - low) * bits.rows(seed, bits.CONTRAST, indices, 1, np.float64)
    images -= mean
    images *= rest[:, :, None, None]
    images += mean
    return images.astype(np.float32)
