"""Corrections for several tests at once: Benjamini-Hochberg and Bonferroni-Holm."""

from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.metrics.as_arrays import Numbers, numbers
from nescio.metrics.paired import holm
from nescio.metrics.resampling import check_level

# Many decisions at once: a bound on the share of false alarms among alarms.


def benjamini_hochberg(p: Numbers, level: float) -> Tensor:
    """Which of N p-values to reject, `(N,)`: at most a share `level` of those falsely, on average.

    The largest k with k of the p-values at or below k level / N are rejected (Benjamini and
    Hochberg, 1995). Conformal p-values of one calibration set depend on one another in the way
    that it allows (Bates et al., 2023).
    """
    check_level(level)
    values = numbers("p", p, axes=1).astype(np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise NescioError("p-values must lie between 0 and 1; give those of `p_values`")
    ordered = np.sort(values)
    passing = np.flatnonzero(ordered <= level * np.arange(1, len(values) + 1) / len(values))
    cut = ordered[passing[-1]] if len(passing) else -1.0
    device = p.device if isinstance(p, Tensor) else "cpu"
    return torch.from_numpy(values <= cut).to(device)


# Several p-values at once: Holm (1979), Benjamini and Hochberg (1995).

Correction: TypeAlias = Literal["holm", "bh"]


def adjust(p_values: ArrayLike, correction: Correction = "holm") -> NDArray[np.float64]:
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
