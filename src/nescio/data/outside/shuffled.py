"""Inputs without the relations between features: for tables what permuted pixels are for images."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.checks import Array
from nescio.data import bits
from nescio.data.outside.source import Source, as_source, floats
from nescio.data.outside.value import Outside, as_seed
from nescio.registry import outsides


@outsides.register
def shuffled(x: Array, *, seed: int = 0) -> Outside:
    """Inputs of which each feature comes from a case of its own: same ranges, no relations.

    The cases are drawn by (seed, i), with replacement. Of few features that depend little on each
    other, many of these inputs look like `x`.
    """
    source = as_source(x, images=False)
    text = f"shuffled({source.text}, seed={as_seed(seed)})"
    return Outside("shuffled", source.shape, None, text, partial(_make, source, seed))


def _make(source: Source, seed: int, indices: bits.Indices) -> NDArray[np.float32]:
    table = source.values.reshape(len(source.values), -1)
    features = table.shape[1]
    drawn = bits.rows(seed, bits.SHUFFLE, indices, features, np.uint64)
    case = (drawn % np.uint64(len(table))).astype(np.int64)
    return floats(table[case, np.arange(features)]).reshape(-1, *source.shape)
