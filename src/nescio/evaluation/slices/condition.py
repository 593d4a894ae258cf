"""Conditions on columns in words, such as `age > 60`, and which samples they hold for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, from_torch

Flags: TypeAlias = NDArray[np.bool_]
Relation: TypeAlias = Literal["<=", ">", "=", "is missing"]
LEVELS = 40  # of a column of words: the most frequent ones
WHOLE = 20  # different whole numbers of a column that may be codes: `site = 3`
MISSING = {"", "nan", "None", "NaT", "<NA>"}


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a column must be: `<=` or `>` of a number, `=` of a number or a word, `is missing`.

    column: name of the column.
    relation: `"<="`, `">"`, `"="` or `"is missing"`.
    value: number or word to compare with; None for `"is missing"`.
    """

    column: str
    relation: Relation
    value: float | str | None = None

    def holds(self, columns: Mapping[str, NDArray[Any]]) -> Flags:
        """Which samples meet the condition, `(N,)`.

        columns: columns `(N,)` by name.
        """
        if self.column not in columns:
            raise NescioError(
                f"the condition {str(self)!r} needs the column {self.column!r}; got "
                f"{', '.join(map(repr, columns)) or 'none'}"
            )
        values = columns[self.column]
        if self.relation == "is missing":
            return missing(values)
        if self.relation == "=":
            return np.asarray(values == self.value)
        return np.asarray(values <= self.value if self.relation == "<=" else values > self.value)

    def __str__(self) -> str:
        if self.relation == "is missing":
            return f"{self.column} is missing"
        said = self.value if isinstance(self.value, str) else f"{self.value:.12g}"
        return f"{self.column} {self.relation} {said}"


def read_columns(given: Any) -> dict[str, NDArray[Any]]:
    """Columns by name, `(N,)` each: float64 where they are numbers, otherwise words.

    given: a mapping or a pandas frame, or an array `(N, D)`, whose columns are numbered.
    """
    if isinstance(given, Tensor):
        given = from_torch(given)
    if isinstance(given, np.ndarray):
        if given.ndim != 2:
            raise NescioError(
                f"`columns` must be a mapping of names to arrays (N,), or an array (N, D); got "
                f"shape {given.shape}"
            )
        given = {f"column {k}": column for k, column in enumerate(given.T)}
    if not callable(getattr(given, "items", None)):
        raise NescioError(
            f"`columns` must be a mapping, a frame or an array, got {type(given).__name__}"
        )
    found = {str(name): _column(str(name), values) for name, values in given.items()}
    if len({len(values) for values in found.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(values)}" for name, values in found.items())
        raise NescioError(f"`columns` must have one value per sample each, got {sizes}")
    return found


def _column(name: str, given: Any) -> NDArray[Any]:
    values = from_torch(given) if isinstance(given, Tensor) else np.asarray(given)
    if values.ndim != 1:
        raise NescioError(f"the column {name!r} must be one-dimensional, got shape {values.shape}")
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "b":
        return np.where(values, "yes", "no")
    if values.dtype.kind in "UO":
        return np.array([str(one) for one in values.tolist()])
    raise NescioError(
        f"the column {name!r} holds {values.dtype}; give numbers, words or truth values"
    )


def missing(values: NDArray[Any]) -> Flags:
    """Which values of a column are unknown."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    return np.asarray(np.isin(values, list(MISSING)))


def conditions_of(name: str, values: NDArray[Any], *, steps: int) -> Iterable[Condition]:
    """The conditions on a column that are searched; numbers are cut at `steps` quantiles."""
    unknown = missing(values)
    if unknown.any():
        yield Condition(column=name, relation="is missing")
    known = values[~unknown]
    if not len(known):
        return
    if known.dtype.kind != "f":
        levels, counts = np.unique(known, return_counts=True)
        for level in levels[np.argsort(-counts, kind="stable")][:LEVELS].tolist():
            yield Condition(column=name, relation="=", value=level)
        return
    levels = np.unique(known)
    if len(levels) <= WHOLE and (len(levels) <= 2 or bool((levels == levels.round()).all())):
        for level in levels.tolist():
            yield Condition(column=name, relation="=", value=level)
    if len(levels) > 2:
        for cut in cuts(known, steps):
            yield Condition(column=name, relation="<=", value=cut)
            yield Condition(column=name, relation=">", value=cut)


def cuts(values: NDArray[np.float64], steps: int) -> list[float]:
    """Thresholds near the quantiles 1/steps, 2/steps, ..., with as few digits as will do."""
    ordered = np.sort(values[np.isfinite(values)])
    found = []
    for k in range(1, steps) if len(ordered) else ():
        near = (np.array([k - 0.25, k + 0.25]) / steps * (len(ordered) - 1)).astype(np.int64)
        low, high = ordered[near]
        if low == high:  # ties: between this value and the next one
            after = np.searchsorted(ordered, low, side="right")
            if after == len(ordered):
                break
            high = ordered[after]
        found.append(shortest(float(low), float(high)))
    return sorted(set(found))


def shortest(low: float, high: float) -> float:
    """The number from `low` to below `high` with the fewest digits.

    >>> shortest(59.7312, 60.4)
    60.0
    """
    for digits in range(1, 17):
        for share in (0.5, 0.25, 0.75):
            found = float(f"{low + share * (high - low):.{digits}g}")
            if low <= found < high:
                return found
    return low
