"""Confidence against accuracy in bins (Guo et al., 2017): the reliability diagram."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.core import Floats, NescioError, Numbers, check_level, is_whole
from nescio.core.registry import metrics
from nescio.metrics.aligned import counted_samples
from nescio.metrics.classification import TOLERANCE
from nescio.metrics.ranking import in_two
from nescio.metrics.resampling import lower_bound, upper_bound

BLOCK = 1 << 18  # samples of one step: few enough steps that two threads rarely wait for each other

Slots: TypeAlias = NDArray[np.intp]
Equal: TypeAlias = Literal["width", "mass"]


@metrics.register
def ece(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "width",
    ignore_index: int | None = None,
) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over bins.

    confidence: confidence of each sample, from 0 to 1, `(N,)`, or `(N, H, W)` of maps.
    correct: whether each answer is correct, of the same shape.
    bins: number of bins.
    equal: `"width"` for bins of equal width, `"mass"` for bins with the same number of samples,
      where equal confidences share a bin.
    ignore_index: what `correct` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    sure, right = _samples(confidence, correct, ignore_index)
    gaps = _summed(sure, right, _edges(sure, bins, equal), equal, _gaps)
    return float(np.abs(gaps).sum()) / len(sure)


@dataclass(frozen=True, eq=False, kw_only=True)
class Reliability:
    """The bins of a reliability diagram; an empty bin is NaN, but for its edges and count.

    edges: edges of the bins, `(bins + 1,)`.
    count: number of samples in each bin, `(bins,)`.
    confidence: mean confidence in each bin, `(bins,)`.
    accuracy: share of correct answers in each bin, `(bins,)`.
    """

    edges: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def ece(self) -> float:
        """Mean of |accuracy - confidence| over the bins, weighted by their counts."""
        full = self.count > 0
        gap = np.abs(self.accuracy[full] - self.confidence[full])
        return float(self.count[full] @ gap) / int(self.count.sum())

    def bounds(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Exact bounds (Clopper and Pearson, 1934) on the accuracy in each bin.

        level: confidence level of the bounds of each bin.
        """
        check_level(level)
        full, sure = self.count > 0, (1 + level) / 2
        low, high = (b(self._hits, self.count, sure) for b in (lower_bound, upper_bound))
        return np.where(full, low, np.nan), np.where(full, high, np.nan)

    def expected(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Where the accuracy of each bin would lie if its samples were calibrated.

        Consistency bars (Bröcker and Smith, 2007): binomial, at the mean confidence of the bin.

        level: probability that the accuracy of a calibrated bin lies between the two bounds.
        """
        from scipy.stats import binom

        check_level(level)
        full, tail = self.count > 0, (1 - level) / 2
        mean = np.minimum(np.where(full, self.confidence, 0.0), 1.0)
        low, high = (binom.ppf(q, self.count, mean) for q in (tail, 1 - tail))
        some = np.where(full, self.count, np.nan)
        return low / some, high / some

    @property
    def _hits(self) -> NDArray[np.int64]:
        return np.rint(np.where(self.count > 0, self.accuracy, 0.0) * self.count).astype(np.int64)


def reliability(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "width",
    ignore_index: int | None = None,
) -> Reliability:
    """Count, mean confidence and accuracy in the bins ((m-1)/M, m/M], or in bins of equal mass.

    The first bin holds confidence 0 as well. A confidence on an edge, in its own precision, belongs
    to the bin below it. There are fewer bins of equal mass where confidences are equal.

    confidence: confidence of each sample, from 0 to 1, `(N,)`, or `(N, H, W)` of maps.
    correct: whether each answer is correct, of the same shape.
    bins: number of bins.
    equal: `"width"` for bins of equal width, `"mass"` for bins with the same number of samples,
      where equal confidences share a bin.
    ignore_index: what `correct` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    sure, right = _samples(confidence, correct, ignore_index)
    edges = _edges(sure, bins, equal)
    count, sums, hits = _summed(sure, right, edges, equal, _table)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        mean, accuracy = sums / count, hits / count
    exact = np.arange(bins + 1) / bins if equal == "width" else edges.astype(np.float64)
    return Reliability(
        edges=exact, count=count.astype(np.int64), confidence=mean, accuracy=accuracy
    )


def residuals(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    equal: Equal = "width",
    ignore_index: int | None = None,
) -> Floats:
    """Count, mean and mean square of correct - confidence in the bins with samples, (3, bins)."""
    sure, right = _samples(confidence, correct, ignore_index)
    result = _summed(sure, right, _edges(sure, bins, equal), equal, _powers)
    result = result[:, result[0] > 0]
    result[1:] /= result[0]
    return result


def equal_counts(values: NDArray[Any], bins: int) -> NDArray[Any]:
    """Edges between bins with as many values in each; equal values share a bin.

    They lie midway between two values, so that rounding moves no value to another bin.
    """
    ordered = np.sort(values)
    last = np.ceil(np.arange(1, bins) * len(ordered) / bins).astype(np.intp) - 1
    after = np.unique(np.searchsorted(ordered, ordered[np.maximum(last, 0)], "right"))
    after = after[after < len(ordered)]
    below, above = ordered[after - 1], ordered[after]
    middle = below + (above - below) / 2
    return np.where(middle < above, middle, below)


def _gaps(slots: Slots, sure: NDArray[Any], right: NDArray[Any], size: int) -> Floats:
    """The sum of confidence - correct in each slot."""
    over = np.subtract(sure, right, dtype=np.float64)
    return np.bincount(slots, weights=over, minlength=size).astype(np.float64, copy=False)


def _powers(slots: Slots, sure: NDArray[Any], right: NDArray[Any], size: int) -> Floats:
    """Samples, and the sums of correct - confidence and of its square in each slot, (3, size)."""
    rest = np.subtract(right, sure, dtype=np.float64)
    each = (np.bincount(slots, weights=w, minlength=size) for w in (None, rest, rest**2))
    return np.stack(list(each), dtype=np.float64)


def _table(slots: Slots, sure: NDArray[Any], right: NDArray[Any], size: int) -> Floats:
    """Samples, their confidence and the correct ones in each slot, (3, size)."""
    samples = np.bincount(slots + size * (right == 1), minlength=2 * size).reshape(2, size)
    return np.stack(
        [samples.sum(0), np.bincount(slots, weights=sure, minlength=size), samples[1]],
        dtype=np.float64,
    )


def _summed(
    sure: NDArray[Any],
    right: NDArray[Any],
    edges: NDArray[Any],
    equal: Equal,
    sums: Callable[[Slots, NDArray[Any], NDArray[Any], int], Floats],
) -> Floats:
    """What `sums` gives of every block, added up: (..., bins)."""

    def part(start: int, stop: int) -> Floats:
        total: Any = 0.0
        for low in range(start, stop, BLOCK):
            rows = slice(low, min(low + BLOCK, stop))
            _check(sure, right, rows)
            slots = _slots(sure[rows], edges) if equal == "width" else _places(sure[rows], edges)
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


def _places(sure: NDArray[Any], edges: NDArray[Any]) -> Slots:
    """The number of the bin of each confidence, from 1, for any edges."""
    return np.searchsorted(edges[1:-1], sure) + 1


def _edges(sure: NDArray[Any], bins: int, equal: Equal) -> NDArray[Any]:
    """The edges of the bins in the precision of the confidences."""
    check_bins(bins)
    if equal not in ("width", "mass"):
        raise NescioError(f"`equal` must be 'width' or 'mass', got {equal!r}")
    if equal == "mass":
        _check(sure, np.ones(len(sure), dtype=np.bool_), slice(None))
        return np.concatenate([[0], equal_counts(sure, bins), [1]]).astype(sure.dtype)
    return (np.arange(bins + 1) / bins).astype(sure.dtype)


def checked_samples(
    confidence: Numbers, correct: Numbers, ignore_index: int | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Confidences in [0, 1] and truths, one per sample."""
    sure, right = _samples(confidence, correct, ignore_index)
    _check(sure, right, slice(None))
    return sure, right


def check_bins(bins: int) -> None:
    """Refuse anything but a number of bins."""
    if not is_whole(bins, 1):
        raise NescioError(f"`bins` must be a whole number from 1 up, got {bins!r}; 15 is usual")


def _samples(
    confidence: Numbers, correct: Numbers, ignore_index: int | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    sure, right = counted_samples(("confidence", "correct"), confidence, correct, ignore_index)
    if sure.dtype not in (np.float32, np.float64):
        sure = sure.astype(np.float64)
    return np.ascontiguousarray(sure), right


def _check(sure: NDArray[Any], right: NDArray[Any], rows: slice) -> None:
    """Refuse anything but confidences and truth values: all is read once, in blocks."""
    whole = np.uint32 if sure.dtype == np.float32 else np.uint64
    most = np.asarray(1 + TOLERANCE, sure.dtype).view(whole)  # NaN and negative numbers: above
    if sure[rows].view(whole).max() > most and not (
        sure[rows].min() >= 0 and sure[rows].max() <= 1 + TOLERANCE  # -0.0 is 0
    ):
        missing = int(np.isnan(sure).sum())
        result = f"{sure.min():g} to {sure.max():g}"
        raise NescioError(
            "`confidence` must be in [0, 1] without NaN, got "
            f"{f'NaN in {missing} of {len(sure)} samples' if missing else result}; "
            "use the largest probability, not a logit or a score"
        )
    if right.dtype != np.bool_ and not np.all((right[rows] == 0) | (right[rows] == 1)):
        raise NescioError("`correct` must hold True/False or 1/0; compare labels first")
