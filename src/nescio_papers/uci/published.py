"""Table 1 of Lakshminarayanan et al. (2017) for the sets that are at hand, as printed.

The numbers after the plus-minus are of two kinds: for MC dropout and deep ensembles they are
standard deviations over the splits, for PBP standard errors, copied from the papers before.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

METHODS = ("PBP", "MC dropout", "deep ensemble")
ROUNDING = 0.01 / math.sqrt(12)  # the deviation that rounding to two digits adds


@dataclass(frozen=True)
class Printed:
    """A number of the table, and what is printed behind the plus-minus."""

    value: float
    spread: float
    deviation: bool  # over the splits; otherwise a standard error

    def standard_error(self, splits: int) -> float:
        """The standard error of the mean over the splits, with that of rounding."""
        error = self.spread / math.sqrt(splits) if self.deviation else self.spread
        return math.hypot(error, ROUNDING)


def _row(*numbers: float) -> dict[str, Printed]:
    pairs = zip(METHODS, numbers[::2], numbers[1::2], strict=True)
    return {name: Printed(value, spread, name != "PBP") for name, value, spread in pairs}


RMSE: Mapping[str, Mapping[str, Printed]] = {
    "boston": _row(3.01, 0.18, 2.97, 0.85, 3.28, 1.00),
    "concrete": _row(5.67, 0.09, 5.23, 0.53, 6.03, 0.58),
    "energy": _row(1.80, 0.05, 1.66, 0.19, 2.09, 0.29),
    "naval": _row(0.01, 0.00, 0.01, 0.00, 0.00, 0.00),
    "power": _row(4.12, 0.03, 4.02, 0.18, 4.11, 0.17),
    "protein": _row(4.73, 0.01, 4.36, 0.04, 4.71, 0.06),
    "wine": _row(0.64, 0.01, 0.62, 0.04, 0.64, 0.04),
}
NLL: Mapping[str, Mapping[str, Printed]] = {
    "boston": _row(2.57, 0.09, 2.46, 0.25, 2.41, 0.25),
    "concrete": _row(3.16, 0.02, 3.04, 0.09, 3.06, 0.18),
    "energy": _row(2.04, 0.02, 1.99, 0.09, 1.38, 0.22),
    "naval": _row(-3.73, 0.01, -3.80, 0.05, -5.63, 0.05),
    "power": _row(2.84, 0.01, 2.80, 0.05, 2.79, 0.04),
    "protein": _row(2.97, 0.00, 2.89, 0.01, 2.83, 0.02),
    "wine": _row(0.97, 0.01, 0.93, 0.06, 0.94, 0.12),
}
