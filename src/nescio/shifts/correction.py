"""Several p-values at once: Holm (1979), Benjamini and Hochberg (1995)."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nescio.errors import NescioError
from nescio.metrics import holm
from nescio.shifts.shift import Floats

Correction: TypeAlias = Literal["holm", "bh"]


def adjust(p_values: ArrayLike, correction: Correction = "holm") -> Floats:
    """Adjusted p-values, in the order given: reject those that are at most the level.

    "holm" bounds the chance of any false alarm, whatever hangs together. "bh" bounds the expected
    share of false alarms among the alarms, for independent or positively dependent tests.

    >>> adjust([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    raised = holm(p_values)  # checks them, too
    if correction == "holm":
        return raised
    if correction == "bh":
        p = np.asarray(p_values, dtype=np.float64)
        order = np.argsort(p, kind="stable")
        scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
        found = np.empty_like(p)
        found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
        return np.minimum(found, 1.0)
    raise NescioError(f'correction must be "holm" or "bh", got {correction!r}')
