"""Corrections for several tests at once: Bonferroni-Holm and Benjamini-Hochberg."""

from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.metrics.as_arrays import Floats, Numbers, check_level, numbers

Correction: TypeAlias = Literal["holm", "bh"]


def holm(p: Numbers) -> Floats:
    """P-values corrected for their number (Holm, 1979): it bounds the chance of any false alarm.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def benjamini_hochberg(p: Numbers, level: float) -> Tensor:
    """Which of N p-values to reject, `(N,)`: at most a share `level` of those falsely, on average.

    The largest k with k of the p-values at or below k level / N are rejected (Benjamini and
    Hochberg, 1995). Conformal p-values of one calibration set depend on one another in the way
    that it allows (Bates et al., 2023).

    >>> benjamini_hochberg([0.01, 0.9, 0.03], 0.05).tolist()
    [True, False, True]
    """
    check_level(level)
    device = p.device if isinstance(p, Tensor) else "cpu"
    return torch.from_numpy(adjust(p, "bh") <= level).to(device)


def adjust(p: Numbers, correction: Correction = "holm") -> Floats:
    """Adjusted p-values, in their order: reject those that are at most the level.

    "holm" bounds the chance of any false alarm, whatever depends on what. "bh" bounds the expected
    share of false alarms among the alarms, for independent or positively dependent tests.

    >>> adjust([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    if correction == "holm":
        return holm(p)
    if correction == "bh":
        from scipy.stats import false_discovery_control

        return np.asarray(false_discovery_control(_p_values(p)))
    raise NescioError(f'correction must be "holm" or "bh", got {correction!r}')


def _p_values(p: Numbers) -> Floats:
    values = numbers("p", p, axes=1).astype(np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise NescioError(f"p-values must be from 0 to 1, got {values.min():g} to {values.max():g}")
    return values
