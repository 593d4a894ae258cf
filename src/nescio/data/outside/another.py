"""Another data set as out-distribution."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.checks import Array
from nescio.data import bits
from nescio.data.outside.source import Source, as_source, floats
from nescio.data.outside.value import Outside
from nescio.registry import outsides


@outsides.register
def another(x: Array, name: str) -> Outside:
    """Inputs of another data set, in its order.

    Whether its classes overlap with those of the training data is for you to know.
    """
    source = as_source(x, images=False)
    text = f"another({source.text}, {name!r})"
    return Outside(name, source.shape, len(source.values), text, partial(_make, source))


def _make(source: Source, indices: bits.Indices) -> NDArray[np.float32]:
    return floats(source.values[indices])
