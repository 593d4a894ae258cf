"""Maps of single probabilities: isotonic regression and histogram binning.

Zadrozny and Elkan (2002, 2001). One map for all classes (Zhang et al., 2020), which does not fall,
then divided by the sum: the order of the classes stays. Or one class against the rest, which may
turn it round, or tie classes within a bin.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.calibration.map import State, calibration, refuse_missing
from nescio.core import Categorical, Classification, NescioError
from nescio.metrics.binning import check_bins, equal_counts

STRICT = 1e-6  # times p: what one map for all classes adds, so that the order stays
Floats = NDArray[np.float64]
FitRow = Callable[[Floats, Floats], tuple[Floats, Floats]]  # (probs, truth) -> (x, y)


def _interpolated(prediction: Classification, state: State, *, keep_argmax: bool) -> Categorical:
    x, y = state["x"], state["y"]

    def read(probs: Tensor) -> Tensor:
        after = torch.searchsorted(x, probs).clamp(1, x.shape[1] - 1)
        low, high = x.gather(1, after - 1), x.gather(1, after)
        share = ((probs - low) / (high - low)).nan_to_num(0.0).clamp(0, 1)  # 0 / 0: filled up
        return torch.lerp(y.gather(1, after - 1), y.gather(1, after), share)

    return apply_rows(prediction, read, keep_argmax=keep_argmax)


@calibration(_interpolated)
def isotonic(prediction: Classification, labels: Tensor, *, keep_argmax: bool = True) -> State:
    """Isotonic regression: the best map of probabilities that does not fall.

    Two pseudo-samples, a correct one of probability 0 and a wrong one of probability 1, keep what
    is fitted between 0 and 1. Between two steps it is linear.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    keep_argmax: whether one map serves all classes, which keeps their order. False: one map per
      class; the most probable class may change.
    """
    return fit_rows(prediction, labels, _steps, keep_argmax=keep_argmax)


def _steps(probs: Floats, truth: Floats) -> tuple[Floats, Floats]:
    from sklearn.isotonic import IsotonicRegression

    x, y = np.concatenate([[0.0], probs, [1.0]]), np.concatenate([[1.0], truth, [0.0]])
    found = IsotonicRegression().fit(x, y)
    return found.X_thresholds_, found.y_thresholds_


def _binned(
    prediction: Classification, state: State, *, keep_argmax: bool, **_: Any
) -> Categorical:
    ends, shares = state["x"], state["y"]
    if ends.shape != shares.shape:
        raise ValueError("each bin has one share")

    def read(probs: Tensor) -> Tensor:
        return shares.gather(1, torch.searchsorted(ends, probs).clamp(max=ends.shape[1] - 1))

    return apply_rows(prediction, read, keep_argmax=keep_argmax)


@calibration(_binned)
def histogram(
    prediction: Classification, labels: Tensor, *, bins: int = 15, keep_argmax: bool = True
) -> State:
    """Histogram binning: the share of calibration samples of a class in bins of its probability.

    Each bin of n samples counts one pseudo-sample at its mean probability, but at least 1 / (2 n +
    4) from 0 and from 1, so that no share is 0 or 1.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    bins: number of bins.
    keep_argmax: whether one map serves all classes, with bins of equal width, which keeps their
      order. False: one map per class, with bins of equal counts (equal probabilities share one);
      the most probable class may change.
    """
    check_bins(bins)
    shares = partial(_shares, bins=bins, rising=keep_argmax)
    return fit_rows(prediction, labels, shares, keep_argmax=keep_argmax)


def _shares(probs: Floats, truth: Floats, *, bins: int, rising: bool) -> tuple[Floats, Floats]:
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


def fit_rows(
    prediction: Classification, labels: Tensor, fit: FitRow, *, keep_argmax: bool
) -> State:
    """`x` and `y` of one map per class, or of one for all; rows are filled up with their last."""
    probs = wide_probs(prediction).flatten(0, -2).cpu().numpy()
    truth = np.zeros_like(probs)
    truth[np.arange(len(probs)), labels.flatten().cpu().numpy()] = 1
    if keep_argmax:
        found = [fit(probs.ravel(), truth.ravel())]
    else:
        refuse_missing(prediction.classes, labels)
        found = [fit(p, t) for p, t in zip(probs.T, truth.T, strict=True)]
    return {"x": _filled([x for x, _ in found]), "y": _filled([y for _, y in found])}


def apply_rows(
    prediction: Classification, read: Callable[[Tensor], Tensor], *, keep_argmax: bool
) -> Categorical:
    """What `read` makes of the probabilities `(C, N)`, or `(1, N C)`, divided by their sum."""
    probs = wide_probs(prediction)
    flat = probs.flatten(0, -2)
    if keep_argmax:
        mapped = (read(flat.reshape(1, -1)).view_as(flat)) + STRICT * flat
    else:
        mapped = read(flat.T.contiguous()).T
    logs = mapped.log() - mapped.sum(-1, keepdim=True).log()
    return Categorical(logs.reshape(probs.shape)[None])


def wide_probs(prediction: Classification) -> Tensor:
    """Probabilities of the mixture in float64; steps have no gradients to give."""
    probs = prediction.to(torch.float64).probs
    if probs.requires_grad:
        raise NescioError(
            "isotonic and histogram calibration are steps and flats: they have no gradients; "
            "attack the predictor within, or use temperature scaling"
        )
    return probs


def _filled(rows: list[Floats]) -> Tensor:
    width = max(map(len, rows))
    padded = [np.pad(row, (0, width - len(row)), mode="edge") for row in rows]
    return torch.from_numpy(np.stack(padded))
