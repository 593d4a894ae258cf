"""Another out-distribution times a number (Hein et al., 2019, table 2)."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.value import Outside
from nescio.errors import NescioError
from nescio.registry import outsides


@outsides.register
def scaled(outside: Outside, factor: float) -> Outside:
    """Inputs of another out-distribution times `factor`; they leave its range on purpose."""
    if not abs(factor) <= float(np.finfo(np.float32).max):
        raise NescioError(f"`factor` must be finite in float32, got {factor}")
    return Outside(
        f"{factor:g} * {outside.name}",
        outside.shape,
        outside.size,
        f"scaled({outside.description}, {float(factor)})",
        partial(_make, outside, np.float32(factor)),
    )


def _make(outside: Outside, factor: np.float32, indices: bits.Indices) -> NDArray[np.float32]:
    return outside.make(indices) * factor
