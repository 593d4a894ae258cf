"""Which slices to test: all conjunctions of one or two conditions, ranked by their errors.

A conjunction is a path of a tree with two splits. Greedy trees miss a slice whose conditions mean
nothing alone, so all pairs are counted: for conditions by samples as a matrix M, the samples of all
pairs are M M', their errors M diag(wrong) M'.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Floats
from nescio.evaluation.slices.condition import Condition, Flags, conditions_of, cuts

CONDITIONS = 800  # at most: their pairs are counted at once
STEPS = (6, 40)  # thresholds of a column, fewest and most
SAME = 0.5  # samples that two slices share, of all in either: from here on they are one slice
RANKED = 400  # conjunctions of each kind that are looked at, best first
GAIN = 1.6  # by which a second condition must raise the square of the score
FINE, PASSES = 60, 2  # thresholds that are tried for a slice that was found, and how often


@dataclass(frozen=True, eq=False, kw_only=True)
class Excess:
    """Errors beyond what is expected of each sample, and the variance of this, `(N,)` each."""

    beyond: Floats
    variance: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class SliceCandidates:
    """Slices to test, the clearest first, and the number of conjunctions they were chosen from."""

    slices: tuple[tuple[Condition, ...], ...]
    searched: int


def candidates(
    columns: Mapping[str, NDArray[Any]], kinds: Sequence[Excess], *, least: int, most: int
) -> SliceCandidates:
    """At most `most` different slices of at least `least` samples, the clearest first.

    columns: of the samples that are searched. kinds: the best slices of each are taken in turn.
    """
    conditions, members = _conditions(columns, kinds, least)
    if not conditions:
        return SliceCandidates(slices=(), searched=0)
    search = Search(columns=columns, conditions=conditions, members=members, least=least)
    chosen: list[tuple[Condition, ...]] = []
    inside: list[Flags] = []
    turns = zip_longest(*(search.ranked(kind) for kind in kinds))
    for kind, pair in ((kinds[k], pair) for turn in turns for k, pair in enumerate(turn) if pair):
        pair = search.pruned(pair, kind)
        if not _new(search.meeting(pair), inside):
            continue
        refined = search.refined(tuple(conditions[k] for k in pair), kind)
        mine = holding(refined, columns)
        if _new(mine, inside):
            chosen.append(refined)
            inside.append(mine)
        if len(chosen) == most:
            break
    return SliceCandidates(
        slices=tuple(chosen), searched=len(conditions) * (len(conditions) + 1) // 2
    )


def _new(mine: Flags, others: Sequence[Flags]) -> bool:
    return all((mine & one).sum() < SAME * (mine | one).sum() for one in others)


def _conditions(
    columns: Mapping[str, NDArray[Any]], kinds: Sequence[Excess], least: int
) -> tuple[list[Condition], Flags]:
    """Conditions that enough samples meet, and enough do not; whether each sample does, (K, N).

    Where the columns have too many, those with the largest excess alone.
    """
    steps = CONDITIONS // (2 * max(1, len(columns)))
    low, high = STEPS
    conditions: list[Condition] = []
    rows: list[Flags] = []
    for name, values in columns.items():
        for one in conditions_of(name, values, steps=min(max(steps, low), high)):
            row = one.holds(columns)
            if least <= row.sum() <= len(row) - least:
                conditions.append(one)
                rows.append(row)
    if len(rows) > CONDITIONS:
        best = np.max([[_score(row, kind) for row in rows] for kind in kinds], axis=0)
        kept = np.sort(np.argsort(-best, kind="stable")[:CONDITIONS])
        conditions, rows = [conditions[k] for k in kept], [rows[k] for k in kept]
    return conditions, np.array(rows, dtype=bool)


def _score(row: Flags, kind: Excess) -> float:
    return float(kind.beyond[row].sum() / math.sqrt(max(kind.variance[row].sum(), 1e-6)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """Conditions on columns, and which samples meet each, (K, N)."""

    columns: Mapping[str, NDArray[Any]]
    conditions: Sequence[Condition]
    members: Flags
    least: int

    def ranked(self, kind: Excess) -> Iterator[tuple[int, ...]]:
        """Conjunctions by the indices of their conditions, in falling order of their evidence.

        Of a score z, the excess in standard deviations, it is z^2 / 2 less the logarithm of the
        number of conjunctions of the same form: of one condition, of two on one column, of two on
        two columns. Noise reaches larger scores where more are tried.
        """
        count = self._counts
        score = self._sums(kind.beyond) / np.sqrt(np.maximum(self._sums(kind.variance), 1e-6))
        evidence = score * np.abs(score) / 2 - self._log_counts
        size = self.members.shape[1]
        evidence[(count < self.least) | (2 * count > size) | (score <= 0)] = -np.inf
        evidence[np.tril_indices(len(self.conditions), -1)] = -np.inf
        flat = evidence.ravel()
        top = np.argpartition(-flat, min(RANKED, flat.size) - 1)[:RANKED]
        for position in top[np.argsort(-flat[top], kind="stable")].tolist():
            if np.isfinite(flat[position]):
                first, second = divmod(position, len(self.conditions))
                yield (first,) if first == second else (first, second)

    def meeting(self, indices: tuple[int, ...]) -> Flags:
        """The samples that meet all conditions of these indices."""
        return np.asarray(self.members[list(indices)].all(0))

    def pruned(self, pair: tuple[int, ...], kind: Excess) -> tuple[int, ...]:
        """The better condition alone, if the other one adds little that noise does not."""
        if len(pair) == 1:
            return pair
        both = _score(self.meeting(pair), kind)
        size = self.members.shape[1]
        alone = {
            k: _score(self.members[k], kind) for k in pair if 2 * self.members[k].sum() <= size
        }
        best = max(alone, key=lambda k: alone[k], default=None)
        return pair if best is None or both**2 > GAIN * alone[best] ** 2 else (best,)

    def _sums(self, values: Floats) -> NDArray[np.float32]:
        """The sums of values over the samples of all pairs, (K, K); alone on the diagonal."""
        if (values == values[0]).all():
            return self._counts * np.float32(values[0])
        table = self.members.astype(np.float32)
        return np.asarray((table * values.astype(np.float32)) @ table.T)

    @cached_property
    def _counts(self) -> NDArray[np.float32]:
        table = self.members.astype(np.float32)
        return np.asarray(table @ table.T)

    @cached_property
    def _log_counts(self) -> NDArray[np.float32]:
        """The logarithm of the number of conjunctions of the form of each pair."""
        _, names = np.unique([one.column for one in self.conditions], return_inverse=True)
        same, alone = names[:, None] == names, np.eye(len(names), dtype=bool)
        forms = {"two columns": ~same, "one column": same & ~alone}
        logs = [math.log(max(1, form.sum() // 2)) for form in forms.values()]
        return np.select(list(forms.values()), logs, math.log(len(names))).astype(np.float32)

    def refined(self, slice_: tuple[Condition, ...], kind: Excess) -> tuple[Condition, ...]:
        """The same conditions with the thresholds that have the largest score."""
        for _ in range(PASSES):
            for k, one in enumerate(slice_):
                if one.relation in ("<=", ">"):
                    rest = slice_[:k] + slice_[k + 1 :]
                    better = self._threshold(one, holding(rest, self.columns), kind)
                    slice_ = (*slice_[:k], better, *slice_[k + 1 :])
        return slice_

    def _threshold(self, one: Condition, among: Flags, kind: Excess) -> Condition:
        """The condition with its best threshold, among the samples that meet the others."""
        values = self.columns[one.column]
        known = among & np.isfinite(values)
        order = np.argsort(values[known], kind="stable")
        if one.relation == ">":
            order = order[::-1]
        ranked, sign = values[known][order], 1 if one.relation == "<=" else -1
        fine = np.array([one.value, *cuts(values[known], FINE)])
        count = np.searchsorted(sign * ranked, sign * fine, "right" if sign > 0 else "left")
        beyond, variance = (
            np.concatenate([[0.0], part[known][order].cumsum()])[count]
            for part in (kind.beyond, kind.variance)
        )
        score = beyond / np.sqrt(np.maximum(variance, 1e-6))
        score[1:][count[1:] < self.least] = -np.inf
        return replace(one, value=float(fine[score.argmax()]))


def holding(conditions: Sequence[Condition], columns: Mapping[str, NDArray[Any]]) -> Flags:
    """The samples that meet all conditions; all samples where there is none."""
    met = np.ones(len(next(iter(columns.values()))), bool)
    for one in conditions:
        met &= one.holds(columns)
    return met
