"""Images with their pixels in another order (Hein et al., 2019, section 5)."""

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
def permuted(x: Array, *, seed: int = 0) -> Outside:
    """Training images with their pixels shuffled, the channels of a pixel together.

    Input i is image i mod N of `x` in an order given by `seed`, its pixels in an order given by
    (seed, i): every image comes equally often, each time shuffled anew. (N, F) shuffles features.
    """
    source = as_source(x, images=False)
    if source.values.ndim not in (2, 4):
        raise NescioError(
            f"x must be (N, F) or (N, C, H, W), got {source.values.shape}; "
            "add a channel axis to (N, H, W)"
        )
    text = f"permuted({source.text}, seed={as_seed(seed)})"
    make = partial(_make, source, source.order(seed), seed)
    return Outside("permuted", source.shape, None, text, make)


def _make(
    source: Source, order: NDArray[np.int64], seed: int, indices: bits.Indices
) -> NDArray[np.float32]:
    channels = source.shape[0] if len(source.shape) == 3 else 1
    pixels = source.values[0].size // channels
    first = order[indices % len(order)] * (channels * pixels)
    places = bits.orders(seed, bits.ORDER, indices, pixels)[:, None]
    places = places + (first[:, None] + np.arange(channels) * pixels)[:, :, None]  # (n, C, P)
    return floats(source.values.reshape(-1)[places]).reshape(-1, *source.shape)
