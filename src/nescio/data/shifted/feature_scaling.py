"""Columns of a table in a wrong unit (Ulmer and Cina, 2021, section 4)."""

from collections.abc import Sequence

from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted
from nescio.data.shifts import scaling
from nescio.errors import NescioError
from nescio.registry import shifts


@shifts.register
def feature_scaling(features: int | Sequence[int] | None = None, *, factor: float = 2.0) -> Shifted:
    """Multiply some features, or all (None), by `factor` to the power of the strength."""
    if not 0 < factor < 1e6 or factor == 1:
        raise NescioError(f"`factor` must be above 0, below 1e6 and not 1, got {factor}")
    times = scaling(features)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        return times(x, factor**strength)

    return Shifted("feature_scaling", f"times {factor:g} a step", False, change)
