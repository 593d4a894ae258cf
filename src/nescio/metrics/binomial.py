"""Exact one-sided bounds on a rate (Clopper and Pearson, 1934)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def upper_bound(successes: Any, samples: Any, confidence: float) -> Floats:
    """The rate is at most this, with the confidence: 1 where there are no samples."""
    from scipy.special import betaincinv

    hits, count = np.asarray(successes, np.float64), np.asarray(samples, np.float64)
    found = betaincinv(hits + 1, np.maximum(count - hits, 1e-300), confidence)
    return np.where(hits >= count, 1.0, found)


def lower_bound(successes: Any, samples: Any, confidence: float) -> Floats:
    """The rate is at least this, with the confidence: 0 where there are no samples."""
    from scipy.special import betaincinv

    hits, count = np.asarray(successes, np.float64), np.asarray(samples, np.float64)
    found = betaincinv(np.maximum(hits, 1e-300), count - hits + 1, 1 - confidence)
    return np.where(hits <= 0, 0.0, found)
