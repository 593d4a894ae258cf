"""Confidence against accuracy in equal-width bins (Guo et al., 2017): the reliability diagram."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.metrics.classification import TOLERANCE
from nescio.registry import metrics

BLOCK = 1 << 18  # cases of one bincount


@metrics.register
def ece(confidence: Numbers, correct: Numbers, *, bins: int = 15) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over equal-width bins."""
    return reliability(confidence, correct, bins=bins).ece


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram; an empty bin has confidence and accuracy NaN."""

    edges: NDArray[np.float64]  # (bins + 1,)
    count: NDArray[np.int64]  # (bins,)
    confidence: NDArray[np.float64]  # (bins,) mean of the bin
    accuracy: NDArray[np.float64]  # (bins,) share correct in the bin

    @property
    def ece(self) -> float:
        """Mean of |accuracy - confidence| over the bins, weighted by their counts."""
        full = self.count > 0
        gap = np.abs(self.accuracy[full] - self.confidence[full])
        return float(self.count[full] @ gap) / int(self.count.sum())


def reliability(confidence: Numbers, correct: Numbers, *, bins: int = 15) -> Reliability:
    """Count, mean confidence and accuracy in the bins ((m-1)/M, m/M].

    The first bin holds confidence 0 as well. A confidence on an edge, in its own precision,
    belongs to the bin below it.
    """
    if not isinstance(bins, int) or bins < 1:
        raise NescioError(f"`bins` must be a whole number from 1 up, got {bins!r}; 15 is usual")
    sure, right = _cases(confidence, correct)
    edges = np.arange(bins + 1) / bins
    totals = np.zeros((3, bins))  # cases, sum of confidence, sum of correct
    for start in range(0, len(sure), BLOCK):
        part = slice(start, start + BLOCK)
        index = _bin(sure[part], edges.astype(sure.dtype))
        totals[0] += np.bincount(index, minlength=bins)
        totals[1] += np.bincount(index, weights=sure[part], minlength=bins)
        totals[2] += np.bincount(index, weights=right[part], minlength=bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        mean, accuracy = totals[1:] / totals[0]
    return Reliability(edges, totals[0].astype(np.int64), mean, accuracy)


def _bin(sure: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int64]:
    """The bin ((m-1)/M, m/M] of each confidence: by multiplication, then exact at the edges."""
    bins = len(edges) - 1
    index = np.minimum((sure * bins).astype(np.int64), bins - 1)
    index -= sure <= edges[index]  # on the lower edge, or rounded up to it
    index += sure > edges[index + 1]  # rounded down from above the upper edge
    return index.clip(0, bins - 1)


def _cases(confidence: Numbers, correct: Numbers) -> tuple[NDArray[Any], NDArray[Any]]:
    sure, right = numbers("confidence", confidence, axes=1), numbers("correct", correct, axes=1)
    if sure.dtype.kind != "f":
        sure = sure.astype(np.float64)
    if len(sure) != len(right):
        raise NescioError(
            f"`confidence` and `correct` must have one entry a case, got {len(sure)} "
            f"and {len(right)}"
        )
    if not (sure.min() >= 0 and sure.max() <= 1 + TOLERANCE):  # also NaN
        raise NescioError(
            f"`confidence` must be in [0, 1] without NaN, got {sure.min():g} to "
            f"{sure.max():g}; use the largest probability, not a logit or a score"
        )
    if not np.all((right == 0) | (right == 1)):
        raise NescioError("`correct` must hold True/False or 1/0; compare labels first")
    return sure, right
