"""Confidence against accuracy in equal-width bins (Guo et al., 2017): the reliability diagram."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.metrics.classification import TOLERANCE
from nescio.metrics.ranking import in_two
from nescio.registry import metrics

BLOCK = 1 << 14  # cases of one step: they stay in the cache

Floats: TypeAlias = NDArray[np.float64]
Slots: TypeAlias = NDArray[np.intp]


@metrics.register
def ece(confidence: Numbers, correct: Numbers, *, bins: int = 15) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over equal-width bins."""
    sure, right = _cases(confidence, correct)
    gaps = _summed(sure, right, _edges(sure, bins), _gaps)
    return float(np.abs(gaps).sum()) / len(sure)


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
    sure, right = _cases(confidence, correct)
    count, sums, hits = _summed(sure, right, _edges(sure, bins), _table)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        mean, accuracy = sums / count, hits / count
    return Reliability(np.arange(bins + 1) / bins, count.astype(np.int64), mean, accuracy)


def _gaps(slots: Slots, sure: NDArray[Any], right: NDArray[Any], size: int) -> Floats:
    """The sum of confidence - correct in each slot."""
    over = np.subtract(sure, right, dtype=np.float64)
    return np.bincount(slots, weights=over, minlength=size).astype(np.float64, copy=False)


def _table(slots: Slots, sure: NDArray[Any], right: NDArray[Any], size: int) -> Floats:
    """Cases, their confidence and the correct ones in each slot, (3, size)."""
    cases = np.bincount(slots + size * (right == 1), minlength=2 * size).reshape(2, size)
    return np.stack(
        [cases.sum(0), np.bincount(slots, weights=sure, minlength=size), cases[1]], dtype=np.float64
    )


def _summed(
    sure: NDArray[Any],
    right: NDArray[Any],
    edges: NDArray[Any],
    sums: Callable[[Slots, NDArray[Any], NDArray[Any], int], Floats],
) -> Floats:
    """What `sums` gives of every block, added up: (..., bins)."""

    def part(start: int, stop: int) -> Floats:
        total: Any = 0.0
        for low in range(start, stop, BLOCK):
            rows = slice(low, min(low + BLOCK, stop))
            _check(sure, right, rows)
            slots = _slots(sure[rows], edges)
            total = total + sums(slots, sure[rows], right[rows], len(edges) + 1)
        return np.asarray(total)

    half = len(sure) // 2
    one, two = in_two(len(sure), lambda: part(0, half), lambda: part(half, len(sure)))
    total: Floats = one + two
    total[..., 1] += total[..., 0]  # confidence 0 belongs to the first bin
    total[..., -2] += total[..., -1]  # an average in float32 may lie just above 1
    return total[..., 1:-1]


def _slots(sure: NDArray[Any], edges: NDArray[Any]) -> Slots:
    """The m of the bin ((m-1)/M, m/M] of each confidence, 0 for confidence 0, M + 1 above 1.

    By multiplication; a confidence within a few roundings of an edge is compared with it.
    """
    bins = len(edges) - 1
    scaled = sure * sure.dtype.type(bins)
    slots: Slots = np.ceil(scaled).astype(np.intp)
    if bins * TOLERANCE > 0.5:
        np.minimum(slots, bins + 1, out=slots)
    scaled -= np.rint(scaled)
    near = np.flatnonzero(np.abs(scaled, out=scaled) <= 4 * bins * np.finfo(sure.dtype).eps)
    if len(near) > 0:
        slots[near] = np.searchsorted(edges, sure[near])
    return slots


def _edges(sure: NDArray[Any], bins: int) -> NDArray[Any]:
    """The edges of the bins in the precision of the confidences."""
    if not isinstance(bins, int) or bins < 1:
        raise NescioError(f"`bins` must be a whole number from 1 up, got {bins!r}; 15 is usual")
    return (np.arange(bins + 1) / bins).astype(sure.dtype)


def _cases(confidence: Numbers, correct: Numbers) -> tuple[NDArray[Any], NDArray[Any]]:
    sure, right = numbers("confidence", confidence, axes=1), numbers("correct", correct, axes=1)
    if sure.dtype not in (np.float32, np.float64):
        sure = sure.astype(np.float64)
    if len(sure) != len(right):
        raise NescioError(
            f"`confidence` and `correct` must have one entry a case, got {len(sure)} "
            f"and {len(right)}"
        )
    return np.ascontiguousarray(sure), right


def _check(sure: NDArray[Any], right: NDArray[Any], rows: slice) -> None:
    """Refuse what is no confidence or no truth: all is read once, in blocks."""
    whole = np.uint32 if sure.dtype == np.float32 else np.uint64
    most = np.asarray(1 + TOLERANCE, sure.dtype).view(whole)  # NaN and negative numbers: above
    if sure[rows].view(whole).max() > most and not (
        sure[rows].min() >= 0 and sure[rows].max() <= 1 + TOLERANCE  # -0.0 is 0
    ):
        missing = int(np.isnan(sure).sum())
        found = f"{sure.min():g} to {sure.max():g}"
        raise NescioError(
            "`confidence` must be in [0, 1] without NaN, got "
            f"{f'NaN in {missing} of {len(sure)} cases' if missing else found}; "
            "use the largest probability, not a logit or a score"
        )
    if right.dtype != np.bool_ and not np.all((right[rows] == 0) | (right[rows] == 1)):
        raise NescioError("`correct` must hold True/False or 1/0; compare labels first")
