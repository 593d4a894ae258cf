"""Calibration errors beside the usual one: the largest gap, class by class, without its bias."""

import math

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import metrics
from nescio.metrics.as_arrays import Numbers, numbers
from nescio.metrics.binning import Equal, ece, reliability, residuals
from nescio.metrics.classification import checked_blocks, checked_labels


@metrics.register
def mce(confidence: Numbers, correct: Numbers, *, bins: int = 15, equal: Equal = "width") -> float:
    """Maximum calibration error: the largest gap of confidence and accuracy of a bin."""
    found = reliability(confidence, correct, bins=bins, equal=equal)
    return float(np.nanmax(np.abs(found.accuracy - found.confidence)))


@metrics.register
def classwise_ece(
    probs: Numbers, labels: Numbers, *, bins: int = 15, equal: Equal = "width"
) -> float:
    """Calibration error of every class's probability, mean over classes (Kull et al., 2019)."""
    table = numbers("probs", probs, axes=2)
    wanted = checked_labels(labels, table)
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
) -> float:
    """Calibration error less some of what chance alone adds to it (Kumar et al., 2019).

    With `norm` 1, the gap of each bin is less by what a normal error of its accuracy would add to
    that gap on average, in closed form. Of calibrated samples more than half is left, for their
    gaps are large by chance already. With `norm` 2 it is the root of the mean square gap, each
    less the variance of its mean residual, as the residuals show it: for given bins that is
    unbiased in the square (Bröcker, 2012), and often below 0 where the samples are calibrated; the
    root keeps its sign. Bins of one sample are then refused.
    """
    if norm not in (1, 2):
        raise NescioError(f"`norm` must be 1 or 2, got {norm!r}")
    if norm == 1:
        found = reliability(confidence, correct, bins=bins, equal=equal)
        full = found.count > 0
        count, share = found.count[full], found.accuracy[full]
        gap, spread = share - found.confidence[full], np.sqrt(share * (1 - share) / count)
        return float(count @ (2 * np.abs(gap) - _folded(gap, spread))) / int(count.sum())
    count, gap, square = residuals(confidence, correct, bins=bins, equal=equal)
    if (lonely := int((count < 2).sum())) > 0:
        raise NescioError(
            f"{lonely} bin(s) hold one sample, whose accuracy has no variance; use fewer bins, or "
            "equal='mass'"
        )
    mean = float(count @ (gap**2 - (square - gap**2) / (count - 1))) / float(count.sum())
    return math.copysign(math.sqrt(abs(mean)), mean)


def _folded(mean: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of |x| for normal x."""
    from scipy.special import erf

    scaled = np.divide(mean, spread, out=np.full_like(mean, np.inf), where=spread > 0)
    tails = spread * math.sqrt(2 / math.pi) * np.exp(-(scaled**2) / 2)
    return np.asarray(tails + np.abs(mean) * erf(np.abs(scaled) / math.sqrt(2)))
