"""Accuracy and confidence group by group: exact intervals, and a test corrected for all groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.conformal import binomial_interval
from nescio.core import Floats, NescioError, Numbers, numbers
from nescio.metrics import Interval, bootstrap_mean, ece, holm

ROWS = 200  # groups that are listed, the worst first
RESAMPLES = 500
LEVEL = 0.05  # from which p-value on a group is not worse than chance allows


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """One group. Where errors are of numbers, `accuracy` is the share inside the interval.

    name: name of the group.
    samples: number of its samples.
    accuracy: its accuracy; the interval is exact, 95 % for this group alone.
    others: accuracy of all other samples; None: there are none.
    p: p-value that errors are as frequent elsewhere, corrected for all groups (Holm).
    at_once: its accuracy; the interval is exact, 95 % for all groups of the table together.
    overconfidence: mean confidence - accuracy, at these confidences.
    ece: expected calibration error.
    mean_error: mean absolute error, where errors are of numbers.
    """

    name: str
    samples: int
    accuracy: Interval
    others: float | None
    p: float
    at_once: Interval
    overconfidence: Interval | None = None
    ece: float | None = None
    mean_error: Interval | None = None

    @property
    def gap(self) -> float:
        """How much lower the accuracy is than elsewhere."""
        return 0.0 if self.others is None else self.others - self.accuracy.value

    @property
    def worse(self) -> bool:
        """Whether it is worse than the other samples by more than chance allows."""
        return self.p <= LEVEL


@dataclass(frozen=True, kw_only=True)
class GroupTable:
    """The groups of one column, the clearest first; the one of lowest accuracy is listed too.

    by: name of the column.
    groups: number of all groups, listed or not.
    tests: number of tests of all tables together: p-values are corrected for these.
    rows: the groups that are listed.
    absent: known names without a sample.
    """

    by: str
    groups: int
    tests: int
    rows: tuple[GroupRow, ...]
    absent: tuple[str, ...] = ()

    @property
    def worst(self) -> GroupRow:
        """The group of the lowest accuracy."""
        return min(self.rows, key=lambda row: (row.accuracy.value, -row.samples))


def by_group(
    wrong: Numbers,
    groups: Mapping[str, Any],
    *,
    confidence: Numbers | None = None,
    errors: Numbers | None = None,
    names: Sequence[str] = (),
) -> dict[str, GroupTable]:
    """Accuracy with exact intervals for the groups of each column, and a test of each group.

    `by_group(answers != labels, {"site": site}, confidence=confidence)["site"].worst`. A group's
    p-value is that of Fisher's exact test of its errors against those of all other samples; those
    of all columns are corrected together (Holm), so that with a chance of 95 % no group is called
    worse that is not.

    wrong: whether each answer is an error, `(N,)`.
    groups: by name, one label per sample, `(N,)`.
    confidence: confidence of each sample, from 0 to 1, `(N,)`; None: no calibration by group.
    errors: absolute errors, of a regression, `(N,)`.
    names: names of classes that may be absent.
    """
    bad = numbers("wrong", wrong, axes=1).astype(bool)
    sure = None if confidence is None else numbers("confidence", confidence, axes=1)
    sizes = None if errors is None else numbers("errors", errors, axes=1)
    codes = {name: _codes(name, labels, len(bad)) for name, labels in groups.items()}
    p = [_p_values(bad, index, len(levels)) for levels, index in codes.values()]
    corrected = np.split(holm(np.concatenate(p)), np.cumsum([len(one) for one in p])[:-1])
    tests = sum(map(len, p))
    return {
        name: _table(name, codes[name], bad, sure, sizes, values, tests, names)
        for name, values in zip(codes, corrected, strict=True)
    }


def _codes(name: str, labels: Any, samples: int) -> tuple[list[str], NDArray[np.int64]]:
    """The names of groups, and the index of each sample's group."""
    values = np.asarray(labels)
    if values.shape != (samples,):
        raise NescioError(
            f"the groups {name!r} must have one label per sample, {samples:,}; got shape "
            f"{values.shape}"
        )
    levels, index = np.unique(values.astype(str), return_inverse=True)
    if len(levels) > most_groups(samples):
        raise NescioError(
            f"the groups {name!r} have {len(levels):,} different labels for {samples:,} samples: "
            "that tells samples apart, not groups; give a coarser column"
        )
    return levels.tolist(), index.astype(np.int64)


def most_groups(samples: int) -> int:
    """More labels than these tell samples apart, not groups."""
    return max(20, samples // 2)


def _p_values(bad: NDArray[np.bool_], index: NDArray[np.int64], groups: int) -> Floats:
    """One-sided exact p-values of all groups: hypergeometric tails."""
    from scipy.stats import hypergeom

    size = np.bincount(index, minlength=groups)
    failed = np.bincount(index, weights=bad, minlength=groups).astype(np.int64)
    pairs, which = np.unique(np.stack([failed, size], axis=1), axis=0, return_inverse=True)
    tails = hypergeom.sf(pairs[:, 0] - 1, len(bad), int(bad.sum()), pairs[:, 1])
    return np.asarray(np.clip(tails, 0.0, 1.0)[which.ravel()])


def _table(
    name: str,
    codes: tuple[list[str], NDArray[np.int64]],
    bad: NDArray[np.bool_],
    sure: NDArray[Any] | None,
    sizes: NDArray[Any] | None,
    p: Floats,
    tests: int,
    names: Sequence[str],
) -> GroupTable:
    levels, index = codes
    count = np.bincount(index, minlength=len(levels))
    failed = np.bincount(index, weights=bad, minlength=len(levels))
    order = np.lexsort((-count, -failed / count, p))[:ROWS]
    lowest = np.lexsort((-count, -failed / count))[0]  # with many groups it may not be the clearest
    if lowest not in order:
        order[-1] = lowest
    members = np.split(np.argsort(index, kind="stable"), np.cumsum(count)[:-1])
    rows = []
    for k in order.tolist():
        mine = members[k]
        rest, more = len(bad) - len(mine), {}
        if sure is not None:
            more = _confidence(sure[mine], bad[mine])
        if sizes is not None:
            more["mean_error"] = bootstrap_mean(sizes[mine], resamples=RESAMPLES)
        right = len(mine) - int(failed[k])
        rows.append(
            GroupRow(
                name=levels[k],
                samples=len(mine),
                accuracy=binomial_interval(right, len(mine)),
                others=1 - float(bad.sum() - failed[k]) / rest if rest else None,
                p=float(p[k]),
                at_once=binomial_interval(right, len(mine), level=1 - 0.05 / len(levels)),
                **more,
            )
        )
    present = set(levels)
    absent = tuple(one for one in names if one not in present) if name == "class" else ()
    return GroupTable(by=name, groups=len(levels), tests=tests, rows=tuple(rows), absent=absent)


def _confidence(sure: NDArray[Any], bad: NDArray[np.bool_]) -> dict[str, Any]:
    """ECE, and mean confidence less accuracy: the exact bounds of the accuracy turned over."""
    mean = float(sure.mean())
    part = binomial_interval(int((~bad).sum()), len(bad))
    gap = Interval(mean - part.value, mean - part.high, mean - part.low)
    return {"overconfidence": gap, "ece": ece(sure, ~bad)}
