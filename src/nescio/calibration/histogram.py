"""Histogram binning (Zadrozny and Elkan, 2001): the share of each bin.

One map for all classes, made one that does not fall, then divided by the sum: the order of the
classes stays. Or one class against the rest, where classes tie within a bin.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.calibration.by_probability import Floats, apply_rows, fit_rows
from nescio.calibration.calibrated import calibration
from nescio.calibration.map import State
from nescio.core import Categorical, Classification
from nescio.metrics.binning import check_bins, equal_counts


def _applied(
    prediction: Classification, state: State, *, keep_argmax: bool, **_: Any
) -> Categorical:
    ends, shares = state["x"], state["y"]
    if ends.shape != shares.shape:
        raise ValueError("each bin has one share")

    def read(probs: Tensor) -> Tensor:
        return shares.gather(1, torch.searchsorted(ends, probs).clamp(max=ends.shape[1] - 1))

    return apply_rows(prediction, read, keep_argmax=keep_argmax)


@calibration(_applied)
def histogram(
    prediction: Classification, labels: Tensor, *, bins: int = 15, keep_argmax: bool = True
) -> State:
    """The share of calibration samples of the class in each bin of its probability.

    keep_argmax: one map for all classes, with bins of equal width. False: one per class, with bins
      of equal counts (equal probabilities share one); the most probable class may change.

    Each bin of n samples counts one made-up sample at its mean probability, but at least
    1 / (2 n + 4) from 0 and from 1, so that no share is 0 or 1.
    """
    check_bins(bins)
    shares = partial(_shares, bins=bins, rising=keep_argmax)
    return fit_rows(prediction, labels, shares, keep_argmax=keep_argmax)


def _shares(probs: Floats, truth: Floats, *, bins: int, rising: bool) -> tuple[Floats, Floats]:
    """The upper ends of the bins, and their shares."""
    if rising:  # of all classes at once most are near 0: equal counts would lump the rest
        ends = np.arange(1, bins + 1) / bins
        filled = np.unique(np.minimum(np.searchsorted(ends, probs), bins - 1))
        ends = np.append(ends[filled[:-1]], 1.0)
    else:
        ends = np.append(equal_counts(probs, bins), 1.0)
    slots = np.minimum(np.searchsorted(ends, probs), len(ends) - 1)
    count, total, hits = (
        np.bincount(slots, weights=weights, minlength=len(ends)) for weights in (None, probs, truth)
    )
    least = 1 / (2 * count + 4)
    shares = (hits + np.clip(total / count, least, 1 - least)) / (count + 1)
    if rising:
        from sklearn.isotonic import IsotonicRegression

        shares = IsotonicRegression().fit(ends, shares, count).predict(ends)
    return ends, shares
