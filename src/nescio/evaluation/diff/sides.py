"""The samples of two audits to compare: as pairs, where enough of them are in both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.evaluation.audit.stored_answers import StoredSet

Columns: TypeAlias = dict[str, NDArray[Any]]
ENOUGH = 0.5  # share of the samples of the smaller audit that must be in both for paired tests


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Columns of the samples to compare, before and after; paired: row by row the same samples."""

    before: Columns
    after: Columns
    paired: bool

    def has(self, *names: str) -> bool:
        return all(name in side for name in names for side in (self.before, self.after))

    def get(self, read: Callable[[Columns], Any]) -> tuple[Any, Any]:
        return read(self.before), read(self.after)

    def where(self, read: Callable[[Columns], NDArray[np.bool_]]) -> "Sides":
        """The samples that satisfy a condition, of pairs in both; as pairs if these are enough."""
        one, two = self.get(read)
        if self.paired and (one & two).sum() >= ENOUGH * min(one.sum(), two.sum()):
            one = two = one & two
            return replace(self, before=_rows(self.before, one), after=_rows(self.after, two))
        return Sides(before=_rows(self.before, one), after=_rows(self.after, two), paired=False)


def _rows(columns: Columns, chosen: Any) -> Columns:
    return {name: values[chosen] for name, values in columns.items()}


def sides_of(before: StoredSet, after: StoredSet) -> Sides:
    """The pairs where enough samples are in both audits; otherwise all samples of each."""
    one, two = before.columns(), after.columns()
    first, second = _common(one["keys"], two["keys"])
    if len(first) < max(2, ENOUGH * min(len(one["keys"]), len(two["keys"]))):
        return Sides(before=one, after=two, paired=False)
    return Sides(before=_rows(one, first), after=_rows(two, second), paired=True)


def _common(one: NDArray[np.uint64], two: NDArray[np.uint64]) -> tuple[Any, Any]:
    """Indices of the samples that are in both; of equal ones the first is the first of the other.

    Keys rise; samples of one key have the same input and label, so any order of them will do.
    """
    kinds = np.dtype([("key", np.uint64), ("nth", np.int64)])
    named = []
    for keys in (one, two):
        table = np.empty(len(keys), dtype=kinds)
        table["key"], table["nth"] = keys, np.arange(len(keys)) - np.searchsorted(keys, keys)
        named.append(table)
    _, first, second = np.intersect1d(named[0], named[1], assume_unique=True, return_indices=True)
    return first, second
