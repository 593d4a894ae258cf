"""Calibration errors beside the usual one, and scores in parts: how far answers are from shares.

The errors: the largest gap, class by class, less bias, smooth. The parts of a Brier score or NLL:
uncertainty - resolution + reliability + within (Murphy, 1973). Samples of one predicted class and
of like confidence form a group. With the group's mean probabilities p, its shares of labels q and
the shares of labels o among all samples:

    uncertainty   H(o)            what is lost by always answering o
    resolution    mean D(q, o)    what the groups tell apart
    reliability   mean D(q, p)    what is lost by answers that are not the shares: miscalibration
    within        the rest        what differs within groups (Stephenson et al., 2008)

For the Brier score H is sum q (1 - q) and D the squared distance; for the NLL the entropy and the
Kullback-Leibler divergence (Bröcker, 2009). The sum is exact. `refinement` is uncertainty -
resolution. Few samples in a group make resolution and reliability larger than they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Floats, NescioError, Numbers
from nescio.core.registry import metrics
from nescio.metrics.binning import (
    BLOCK,
    Equal,
    check_bins,
    checked_samples,
    ece,
    equal_counts,
    reliability,
    residuals,
)
from nescio.metrics.classification import brier, checked_blocks, checked_labels, nll

CELLS = 1 << 14  # of [0, 1]; far narrower than any bandwidth that is chosen


@metrics.register
def mce(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "width",
    ignore_index: int | None = None,
) -> float:
    """Maximum calibration error: the largest gap of confidence and accuracy of a bin.

    confidence: confidence of each sample, from 0 to 1, `(N,)`, or `(N, H, W)` of maps.
    correct: whether each answer is correct, of the same shape.
    bins: number of bins.
    equal: `"width"` for bins of equal width, `"mass"` for bins with the same number of samples,
      where equal confidences share a bin.
    ignore_index: what `correct` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    result = reliability(confidence, correct, bins=bins, equal=equal, ignore_index=ignore_index)
    return float(np.nanmax(np.abs(result.accuracy - result.confidence)))


@metrics.register
def classwise_ece(
    probs: Numbers,
    labels: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "width",
    ignore_index: int | None = None,
) -> float:
    """Calibration error of every class's probability, mean over classes (Kull et al., 2019).

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    bins: number of bins.
    equal: `"width"` for bins of equal width, `"mass"` for bins with the same number of samples,
      where equal confidences share a bin.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    table, wanted = checked_labels(probs, labels, ignore_index)
    for _ in checked_blocks(table):
        pass  # every row is a distribution
    each = (
        ece(np.ascontiguousarray(column), wanted == c, bins=bins, equal=equal)
        for c, column in enumerate(table.T)
    )
    return math.fsum(each) / int(table.shape[1])


@metrics.register
def debiased_ece(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "mass",
    norm: int = 1,
    ignore_index: int | None = None,
) -> float:
    """Calibration error less some of what chance alone adds to it (Kumar et al., 2019).

    With `norm` 1, the gap of each bin is less by what a normal error of its accuracy would add to
    that gap on average, in closed form. Of calibrated samples more than half is left, for their
    gaps are large by chance already. With `norm` 2 it is the root of the mean square gap, each less
    the variance of its mean residual, as the residuals show it: for given bins that is unbiased in
    the square (Bröcker, 2012), and often below 0 where the samples are calibrated; the root keeps
    its sign. Bins of one sample are then refused.

    confidence: confidence of each sample, from 0 to 1, `(N,)`, or `(N, H, W)` of maps.
    correct: whether each answer is correct, of the same shape.
    bins: number of bins.
    equal: `"width"` for bins of equal width, `"mass"` for bins with the same number of samples,
      where equal confidences share a bin.
    norm: 1 for mean absolute gaps, 2 for the root of mean squared gaps.
    ignore_index: what `correct` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    if norm not in (1, 2):
        raise NescioError(f"`norm` must be 1 or 2, got {norm!r}")
    sure, right = checked_samples(confidence, correct, ignore_index)
    if norm == 1:
        result = reliability(sure, right, bins=bins, equal=equal)
        full = result.count > 0
        count, share = result.count[full], result.accuracy[full]
        gap, spread = share - result.confidence[full], np.sqrt(share * (1 - share) / count)
        return float(count @ (2 * np.abs(gap) - _folded(gap, spread))) / int(count.sum())
    count, gap, square = residuals(sure, right, bins=bins, equal=equal)
    if (lonely := int((count < 2).sum())) > 0:
        raise NescioError(
            f"{lonely} bin(s) hold one sample, whose accuracy has no variance; use fewer bins, or "
            "equal='mass'"
        )
    mean = float(count @ (gap**2 - (square - gap**2) / (count - 1))) / float(count.sum())
    return math.copysign(math.sqrt(abs(mean)), mean)


def _folded(mean: Floats, spread: Floats) -> Floats:
    """The mean of |x| for normal x."""
    from scipy.special import erf

    scaled = np.divide(mean, spread, out=np.full_like(mean, np.inf), where=spread > 0)
    tails = spread * math.sqrt(2 / math.pi) * np.exp(-(scaled**2) / 2)
    return np.asarray(tails + np.abs(mean) * erf(np.abs(scaled) / math.sqrt(2)))


@metrics.register
def smooth_ece(
    confidence: Numbers,
    correct: Numbers,
    *,
    bandwidth: float | None = None,
    ignore_index: int | None = None,
) -> float:
    """Calibration error with a reflected normal kernel instead of bins.

    Błasiok and Nakkiran (2023). The residuals (correct - confidence) spread over [0, 1] as heat
    does, reflected at both ends; in the cosine basis that is one factor per frequency. The error at
    a bandwidth is the area under what is left; it falls as the bandwidth grows.

    confidence: confidence of each sample, from 0 to 1, `(N,)`, or `(N, H, W)` of maps.
    correct: whether each answer is correct, of the same shape.
    bandwidth: bandwidth of the kernel, in units of confidence; None: the one that equals the error
      it gives.
    ignore_index: what `correct` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    from scipy.fft import dct
    from scipy.optimize import brentq

    waves = dct(_cell_residuals(*checked_samples(confidence, correct, ignore_index)), type=2)
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


def _area(waves: Floats, bandwidth: float) -> float:
    """The integral of the absolute residuals, smoothed."""
    from scipy.fft import idct

    fading = np.exp(-0.5 * (math.pi * bandwidth * np.arange(CELLS)) ** 2)
    return float(np.abs(idct(waves * fading, type=2)).sum())


def _cell_residuals(sure: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Mean residuals in the cells; each is split between the two cells whose middles are next."""
    total = np.zeros(CELLS)
    for start in range(0, len(sure), BLOCK):
        part = np.minimum(sure[start : start + BLOCK].astype(np.float64), 1.0)
        rest = (right[start : start + BLOCK] - part) / len(sure)
        cell = np.clip(part * CELLS - 0.5, 0, CELLS - 1)
        low = np.minimum(cell.astype(np.intp), CELLS - 2)
        share = cell - low
        total += np.bincount(low, weights=rest * (1 - share), minlength=CELLS)
        total += np.bincount(low + 1, weights=rest * share, minlength=CELLS)
    return total


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """A Brier score or NLL in parts: `uncertainty - resolution + reliability + within`.

    score: the Brier score or the NLL.
    uncertainty: the score of always answering the shares of labels among all samples.
    resolution: how far the shares of labels in the groups differ from those among all samples.
    reliability: how far the answers in the groups differ from their shares of labels:
      miscalibration.
    """

    score: float
    uncertainty: float
    resolution: float
    reliability: float

    @property
    def within(self) -> float:
        """What differs within groups; NaN where both the score and reliability are infinite."""
        return self.score - (self.uncertainty - self.resolution + self.reliability)

    @property
    def refinement(self) -> float:
        """What recalibration of the groups would leave."""
        return self.uncertainty - self.resolution


def brier_decomposition(
    probs: Numbers, labels: Numbers, *, bins: int = 10, ignore_index: int | None = None
) -> Decomposition:
    """The Brier score in parts, over groups of the predicted class and `bins` of confidence.

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    bins: number of bins of confidence, with the same number of samples in each.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    table, wanted = checked_labels(probs, labels, ignore_index)
    score = brier(table, wanted)
    return _decomposed(table, wanted, bins, score, lambda q: q * (1 - q), lambda q, p: (q - p) ** 2)


def nll_decomposition(
    probs: Numbers, labels: Numbers, *, bins: int = 10, ignore_index: int | None = None
) -> Decomposition:
    """The NLL in parts, over groups of the predicted class and `bins` of confidence.

    probs: predicted probabilities, `(N, C)`, or `(N, H, W, C)` of maps.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    bins: number of bins of confidence, with the same number of samples in each.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    from scipy.special import entr, rel_entr

    table, wanted = checked_labels(probs, labels, ignore_index)
    return _decomposed(table, wanted, bins, nll(table, wanted), entr, rel_entr)


def _decomposed(
    table: NDArray[Any],
    wanted: NDArray[Any],
    bins: int,
    score: float,
    spread: Callable[[Floats], Floats],
    distance: Callable[[Floats, Floats], Floats],
) -> Decomposition:
    check_bins(bins)
    weight, mean, share = _groups(table, wanted, bins)
    overall = np.bincount(wanted, minlength=table.shape[1]) / len(table)
    return Decomposition(
        score=score,
        uncertainty=float(spread(overall).sum()),
        resolution=float(weight @ distance(share, overall).sum(-1)),
        reliability=float(weight @ distance(share, mean).sum(-1)),
    )


def _groups(table: NDArray[Any], wanted: NDArray[Any], bins: int) -> tuple[Floats, ...]:
    """Weights `(G,)`, mean probabilities and shares of labels `(G, C)` of nonempty groups."""
    from scipy.sparse import csr_array

    samples, classes = table.shape
    top = table.argmax(1)
    sure = table[np.arange(samples), top]
    slot = np.searchsorted(equal_counts(sure, bins), sure)
    _, group, count = np.unique(top * bins + slot, return_inverse=True, return_counts=True)
    shape = (len(count), samples)
    member = csr_array((np.ones(samples), (group, np.arange(samples))), shape=shape).tocsc()
    sums = np.zeros((len(count), classes))
    for rows, block in checked_blocks(table):
        sums += member[:, rows] @ block
    hits = np.bincount(group * classes + wanted, minlength=sums.size).reshape(sums.shape)
    return count / samples, sums / count[:, None], hits / count[:, None]
