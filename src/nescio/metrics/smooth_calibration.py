"""Smooth calibration error (Błasiok and Nakkiran, 2023): a kernel in place of bins.

The residuals (correct - confidence) spread over [0, 1] as heat does, reflected at both ends; in the
cosine basis that is one factor a frequency. The error at a bandwidth is the area under what is
left; it falls as the bandwidth grows. Where the two are equal, that number is the smooth error.
"""

import math

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import metrics
from nescio.metrics.as_arrays import Numbers
from nescio.metrics.binning import BLOCK, checked_samples

CELLS = 1 << 14  # of [0, 1]; far narrower than any bandwidth that is found


@metrics.register
def smooth_ece(confidence: Numbers, correct: Numbers, *, bandwidth: float | None = None) -> float:
    """Calibration error with a reflected normal kernel in place of bins.

    bandwidth: of the kernel; by default the one that equals the error it gives.
    """
    from scipy.fft import dct
    from scipy.optimize import brentq

    waves = dct(_residuals(confidence, correct), type=2)
    if bandwidth is not None:
        if not 0 < bandwidth < math.inf:
            raise NescioError(f"`bandwidth` must be a number above 0, got {bandwidth!r}")
        return _area(waves, bandwidth)
    least = 1 / CELLS
    if _area(waves, least) <= least:
        return _area(waves, least)
    if _area(waves, 1.0) >= 1.0:  # all sure and wrong; above 1 by rounding
        return 1.0
    return float(brentq(lambda width: _area(waves, width) - width, least, 1.0, xtol=1e-12))


def _area(waves: NDArray[np.float64], bandwidth: float) -> float:
    """The integral of the absolute residuals, smoothed."""
    from scipy.fft import idct

    fading = np.exp(-0.5 * (math.pi * bandwidth * np.arange(CELLS)) ** 2)
    return float(np.abs(idct(waves * fading, type=2)).sum())


def _residuals(confidence: Numbers, correct: Numbers) -> NDArray[np.float64]:
    """Mean residuals in the cells; each is split between the two cells whose middles are next."""
    total = np.zeros(CELLS)
    sure, right = checked_samples(confidence, correct)
    for start in range(0, len(sure), BLOCK):
        part = np.minimum(sure[start : start + BLOCK].astype(np.float64), 1.0)
        rest = (right[start : start + BLOCK] - part) / len(sure)
        place = np.clip(part * CELLS - 0.5, 0, CELLS - 1)
        low = np.minimum(place.astype(np.intp), CELLS - 2)
        share = place - low
        total += np.bincount(low, weights=rest * (1 - share), minlength=CELLS)
        total += np.bincount(low + 1, weights=rest * share, minlength=CELLS)
    return total
