"""How often sets and intervals hold the truth, with exact intervals, and how large they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal.score_limits import check_groups
from nescio.core import NescioError, as_targets, as_tensor, check_labels, check_level
from nescio.metrics import Interval
from nescio.metrics.resampling import lower_bound, upper_bound

STRATA = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 100), (101, None))  # sizes, as in RAPS
Shares = Mapping[int, Interval]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Shares with exact binomial intervals; a guarantee may be compared with the upper ends.

    covered: share of sets that hold the label.
    size: mean number of classes of a set.
    singletons: share of sets with one class.
    empty: share of sets without a class.
    by_class, by_group, by_size: share of sets that hold the label, by each class, group and range
      of sizes that occurs.
    """

    covered: Interval
    size: float
    singletons: float
    empty: float
    by_class: Shares
    by_group: Shares
    by_size: Mapping[str, Interval]

    @property
    def worst_class(self) -> int:
        """The class that is covered least."""
        return min(self.by_class, key=lambda name: self.by_class[name].value)

    @property
    def worst_group(self) -> int:
        """The group that is covered least."""
        return min(self.by_group, key=lambda name: self.by_group[name].value)

    @property
    def worst_size(self) -> str:
        """The sizes of sets that cover least: low where easy samples pay for hard ones."""
        return min(self.by_size, key=lambda name: self.by_size[name].value)


def coverage(sets: Any, labels: Any, *, groups: Any = None, level: float = 0.95) -> Coverage:
    """How often prediction sets hold the label: in all, by class, by group and by size.

    sets: booleans `(N, C)`, true where a class is in the set.
    labels: true classes, `(N,)`.
    groups: group number of each sample, `(N,)`; None: no shares by group.
    level: confidence level of the intervals, which are exact (Clopper and Pearson).
    """
    check_level(level)
    sets = as_tensor(sets, "sets").cpu()
    if sets.dtype != torch.bool or sets.ndim != 2 or not len(sets):
        raise NescioError(
            f"sets must be booleans of shape (N, C) with a sample or more, got {sets.dtype} of "
            f"shape {tuple(sets.shape)}"
        )
    y = check_labels(as_tensor(labels, "labels").cpu(), sets.shape[1], (len(sets),))
    covered, sizes = sets.gather(1, y[:, None])[:, 0], sets.sum(1)
    strata = torch.bucketize(sizes, torch.tensor([low for low, _ in STRATA]), right=True) - 1
    by_size = {_stratum(n, sets.shape[1]): s for n, s in shares(covered, strata, level).items()}
    return Coverage(
        covered=binomial_interval(int(covered.sum()), len(covered), level=level),
        size=float(sizes.double().mean()),
        singletons=float((sizes == 1).double().mean()),
        empty=float((sizes == 0).double().mean()),
        by_class=shares(covered, y, level),
        by_group=_by_group(covered, groups, level),
        by_size=by_size,
    )


@dataclass(frozen=True)
class IntervalCoverage:
    """How often intervals hold each target, with the exact interval, and their mean width.

    covered: share of each target in its interval, with the exact interval of the share.
    width: mean width of the intervals of each target.
    by_group: of each target the share covered in each group; empty without groups.
    """

    covered: tuple[Interval, ...]
    width: tuple[float, ...]
    by_group: tuple[Shares, ...]


def interval_coverage(
    low: Any, high: Any, targets: Any, *, groups: Any = None, level: float = 0.95
) -> IntervalCoverage:
    """How often intervals from `low` to `high` hold the target, ends included.

    low, high: lower and upper ends of the intervals, `(N, D)`.
    targets: true targets, `(N, D)`, or `(N,)` of one.
    groups: group number of each sample, `(N,)`; None: no shares by group.
    level: confidence level of the intervals of the shares, which are exact (Clopper and Pearson).
    """
    check_level(level)
    low, high = (as_tensor(end, "ends").double().cpu() for end in (low, high))
    y = as_targets(targets, len(low), task="regression", dtype=torch.float64).cpu()
    if not (low.shape == high.shape == y.shape) or not len(y):
        raise NescioError(
            f"low, high and targets must have one shape (N, D), got {tuple(low.shape)}, "
            f"{tuple(high.shape)} and {tuple(y.shape)}"
        )
    covered = ((low <= y) & (y <= high)).T
    return IntervalCoverage(
        tuple(binomial_interval(int(row.sum()), len(row), level=level) for row in covered),
        tuple((high - low).mean(0).tolist()),
        tuple(_by_group(row, groups, level) for row in covered),
    )


def _by_group(covered: Tensor, groups: Any, level: float) -> Shares:
    if groups is None:
        return {}
    return shares(covered, check_groups(groups, len(covered)).cpu(), level)


def shares(hit: Tensor, cells: Tensor, level: float) -> dict[int, Interval]:
    """The share of hits in each cell that occurs."""
    names, index, counts = cells.unique(return_inverse=True, return_counts=True)
    hits = torch.bincount(index, weights=hit.double(), minlength=len(names)).long()
    return {
        name: binomial_interval(of, samples, level=level)
        for name, of, samples in zip(names.tolist(), hits.tolist(), counts.tolist(), strict=True)
    }


def binomial_interval(successes: int, samples: int, *, level: float = 0.95) -> Interval:
    """A share with its exact interval (Clopper and Pearson, 1934).

    successes: number of samples that count.
    samples: number of all samples.
    level: confidence level of the interval.
    """
    check_level(level)
    if not 0 <= successes <= samples or samples < 1:
        raise NescioError(f"expected successes from 0 to samples, got {successes} of {samples}")
    low, high = (bound(successes, samples, (1 + level) / 2) for bound in (lower_bound, upper_bound))
    return Interval(successes / samples, float(low), float(high))


def _stratum(index: int, classes: int) -> str:
    """The sizes of a stratum in words; no set is larger than there are classes."""
    low, high = STRATA[index]
    if high is None and low < classes:
        return f"{low} or more"
    high = classes if high is None else min(high, classes)
    return str(low) if low == high else f"{low} to {high}"
