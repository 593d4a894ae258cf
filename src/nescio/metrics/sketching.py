"""Ranking metrics of a stream in constant memory, with bounds that hold, and merged over shards.

A score falls into the bin of the first `bits` bits of its float32 pattern, turned so that the
order of bins is the order of scores. The order between bins is exact; within a bin it is unknown.
So every metric has a value, that of the binned scores, and bounds that no order within the bins
can leave. For AUROC they are (pairs in order between bins + 0 or all pairs within a bin) over all
pairs, so its error is at most half the share of pairs that fall into one bin.
"""

from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import (
    Counts,
    DamagedError,
    NescioError,
    Numbers,
    Saved,
    numbers,
    readers,
    save_tensors,
)
from nescio.metrics.ranking import Positive, is_ood, least_count, refuse_nan
from nescio.metrics.resampling import Interval

BLOCK = 1 << 20  # scores at a time
KIND = "sketch"
PARTS = ("bins", "in_dist", "ood")


def sketch(in_dist: Numbers = (), ood: Numbers = (), *, bits: int = 20) -> "Sketch":
    """A sketch of some scores; `Sketch.add` and `Sketch.merge` add more.

    A bin is 2^(9 - bits) of its scores wide: 1/2048 for 20 bits. At most 2^bits bins are stored,
    and usually far fewer. float64 scores are rounded to float32, which keeps their order.

    >>> sketch([0.1, 0.2], [0.3]).add(ood=[0.15]).auroc
    Interval(value=0.75, low=0.75, high=0.75)

    in_dist, ood: scores of in-distribution and of OOD samples, larger is further out; either may be
      empty.
    bits: leading bits of a score that choose its bin, from 10 to 32.
    """
    _check(bits)
    return _added(bits, _binned("in_dist", in_dist, bits), _binned("ood", ood, bits))


@dataclass(frozen=True, eq=False, kw_only=True)
class Sketch:
    """How many in-distribution and OOD scores fell into each bin; empty bins are left out.

    bits: leading bits of a score that choose its bin, from 10 to 32.
    bins: bins with a score in rising order, `(B,)`.
    in_dist, ood: number of in-distribution and of OOD scores in each bin, `(B,)`.
    """

    bits: int
    bins: Counts
    in_dist: Counts
    ood: Counts

    def __post_init__(self) -> None:
        _check(self.bits)
        parts = [getattr(self, name) for name in PARTS]
        if not (
            {part.shape for part in parts} == {(len(self.bins),)}
            and all(np.all(part >= 0) for part in parts)
            and np.all(np.diff(self.bins) > 0)
            and np.all(self.bins < 1 << self.bits)
        ):
            raise NescioError(
                f"a sketch of {self.bits} bits needs rising bins from 0 to 2^{self.bits} - 1 and a "
                "count of 0 or more of each side in each; make it with `sketch`"
            )

    @property
    def counts(self) -> tuple[int, int]:
        """How many in-distribution and OOD scores it has counted."""
        return int(self.in_dist.sum()), int(self.ood.sum())

    def add(self, in_dist: Numbers = (), ood: Numbers = ()) -> "Sketch":
        """A sketch with these scores added; either side may be left out.

        in_dist, ood: scores of in-distribution and of OOD samples; either may be empty.
        """
        return self.merge(sketch(in_dist, ood, bits=self.bits))

    def merge(self, *others: "Sketch") -> "Sketch":
        """A sketch of all scores of these: the counts are added, so their order is free."""
        for other in others:
            if other.bits != self.bits:
                raise NescioError(
                    f"sketches of {self.bits} and {other.bits} bits cannot be merged; "
                    "make all of them with the same `bits`"
                )
        bins, in_dist, ood = (
            np.concatenate([getattr(part, name) for part in (self, *others)]) for name in PARTS
        )
        return _added(self.bits, (bins, in_dist), (bins, ood))

    @property
    def auroc(self) -> Interval:
        """Area under the ROC curve and its bounds, apart by the share of pairs in a bin."""
        samples, others = self._sizes()
        apart = _dot(self.ood, np.cumsum(self.in_dist) - self.in_dist)
        within, pairs = _dot(self.ood, self.in_dist), samples * others
        return Interval((2 * apart + within) / (2 * pairs), apart / pairs, (apart + within) / pairs)

    def aupr(self, positive: Positive = "ood") -> Interval:
        """Average precision and its bounds: each bin's negatives all after or all before.

        positive: the positive class, `"ood"` or `"in_dist"`; see `fpr_at_tpr`.
        """
        self._sizes()
        result, negative = self._surest_first(positive)
        true, false = np.cumsum(result), np.cumsum(negative)
        full = result > 0
        result, true, false, negative = result[full], true[full], false[full], negative[full]
        value, most = true / (true + false), true / (true + false - negative)
        first = true - result + 1  # at worst one by one, after all negatives of the bin
        least = (first / (first + false) + value) / 2  # concave between: the chord lies below
        return Interval(*(float((result * part).sum() / true[-1]) for part in (value, least, most)))

    def fpr_at_tpr(self, tpr: float = 0.95, positive: Positive = "ood") -> Interval:
        """False positive rate where `tpr` of the positives are caught, and its bounds.

        The value is the upper bound: all negatives of the threshold's bin count as false.

        tpr: share of the positives to catch, above 0 and at most 1.
        positive: the positive class, `"ood"` or `"in_dist"`; see `fpr_at_tpr`.
        """
        self._sizes()
        result, negative = self._surest_first(positive)
        true, false = np.cumsum(result), np.cumsum(negative)
        index = int(np.searchsorted(true, least_count(tpr, int(true[-1]))))
        high, low = false[index] / false[-1], (false[index] - negative[index]) / false[-1]
        return Interval(float(high), float(low), float(high))

    @property
    def detection_error(self) -> Interval:
        """Smallest mean of both error rates, and its bounds; the value is the upper one."""
        samples, others = self._sizes()
        flagged = samples - np.cumsum(self.in_dist)  # above the bin
        missed = np.cumsum(self.ood) - self.ood  # below it
        apart = flagged / samples + missed / others  # a threshold that parts the bin without error
        edge = (flagged + self.in_dist) / samples + missed / others
        return Interval(*(float(part.min()) / 2 for part in (edge, apart, edge)))

    def save(self, path: str | Path) -> Path:
        """Write the sketch as a safetensors file at `path`, and return the path."""
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in PARTS}
        save_tensors(Path(path), tensors, {"kind": KIND, "bits": self.bits})
        return Path(path)

    def _sizes(self) -> tuple[int, int]:
        for name, count in zip(("in-distribution", "OOD"), self.counts, strict=True):
            if count == 0:
                raise NescioError(f"the sketch has no {name} scores; add some to both sides")
        return self.counts

    def _surest_first(self, positive: Positive) -> tuple[Counts, Counts]:
        """Positives and negatives in each bin."""
        if is_ood(positive):
            return self.ood[::-1], self.in_dist[::-1]
        return self.in_dist, self.ood


@readers.named(KIND)
def _read(saved: Saved) -> Sketch:
    if set(saved.tensors) != set(PARTS):
        raise DamagedError(f"{saved.path} is damaged: a sketch holds {', '.join(PARTS)}")
    parts = {name: tensor.numpy().astype(np.int64) for name, tensor in saved.tensors.items()}
    return Sketch(bits=saved.manifest.get("bits", 0), **parts)


def _added(bits: int, in_dist: tuple[Counts, Counts], ood: tuple[Counts, Counts]) -> Sketch:
    """Bins that may repeat, with their counts of either side, as a sketch."""
    bins = np.union1d(in_dist[0], ood[0])
    sums = []
    for indices, counts in (in_dist, ood):
        sums.append(np.zeros(len(bins), np.int64))
        np.add.at(sums[-1], np.searchsorted(bins, indices), counts)
    return Sketch(bits=bits, bins=bins, in_dist=sums[0], ood=sums[1])


def _binned(name: str, scores: Numbers, bits: int) -> tuple[Counts, Counts]:
    """The bins of some scores and how many fell into each; a bin may stand there twice."""
    if isinstance(scores, Sized) and np.ndim(scores) > 0 and len(scores) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    values = numbers(name, scores, axes=1)
    blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
    if np.isnan(values).any():
        refuse_nan(name, values)
    result = [np.unique(_bin(block, bits), return_counts=True) for block in blocks]
    bins, counts = (np.concatenate(part).astype(np.int64) for part in zip(*result, strict=True))
    return bins, counts


def _bin(scores: NDArray[Any], bits: int) -> NDArray[np.uint32]:
    """The first bits of the float32 pattern; negative numbers turned round, the others above."""
    with np.errstate(over="ignore"):  # beyond float32: the bin of infinity, still in order
        pattern = (scores.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
    sign = np.uint32(1 << 31)
    turned = np.where(pattern & sign, ~pattern, pattern | sign)
    return turned >> np.uint32(32 - bits)


def _dot(first: Counts, second: Counts) -> int:
    """The exact sum of products, also where int64 would overflow."""
    if int(first.sum()) * int(second.max(initial=0)) < 1 << 63:
        return int(first @ second)
    return int(first.astype(object) @ second)


def _check(bits: int) -> None:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 10 <= bits <= 32:
        raise NescioError(f"`bits` must be a whole number from 10 to 32, got {bits!r}; 20 is usual")
