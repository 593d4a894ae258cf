"""Kinds of columns, learned from a table: how rows become numbers, with flags for what is unknown.

A continuous column becomes its value less the mean, over the deviation, and a flag for missing. An
ordinal one becomes the same of its level's index, and flags for missing and for unseen levels. A
categorical one becomes a 0 or 1 for each level, and the same two flags. Where a flag is set, the
other numbers of the column are 0: nothing is guessed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, Saved, readers, save_manifest, unknown
from nescio.data.forms import Table, Values

Kind: TypeAlias = Literal["continuous", "ordinal", "categorical"]
KINDS = ("continuous", "ordinal", "categorical")
FEW = 10  # different numbers up to which a column is proposed to be ordinal
FLAGS = {"continuous": 1, "ordinal": 2, "categorical": 2}  # last numbers of a column


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: its kind, and what was learned of it."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()  # of ordinal (in order) and categorical columns
    mean: float = 0.0  # of values, or of indices of ordinal levels
    deviation: float = 1.0
    proposed: bool = False  # not chosen by the caller

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NescioError(f"column {self.name!r}: {unknown('kind', self.kind, KINDS)}")
        if not (math.isfinite(self.mean) and 0 < self.deviation < math.inf):
            raise NescioError(
                f"column {self.name!r} needs a finite mean and a positive deviation, got "
                f"{self.mean} and {self.deviation}"
            )

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return (len(self.levels) if self.kind == "categorical" else 1) + FLAGS[self.kind]

    @property
    def features(self) -> list[str]:
        """Names of these numbers."""
        levels = [f"{self.name}={level}" for level in self.levels]
        flags = [f"{self.name}: missing", f"{self.name}: unseen"][: FLAGS[self.kind]]
        return (levels if self.kind == "categorical" else [self.name]) + flags


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as numbers, and where a column had no value or a level that was not learned."""

    x: Tensor  # (N, F) float32
    missing: Tensor  # (N, D) bool
    unseen: Tensor  # (N, D) bool


@dataclass(frozen=True)
class Columns:
    """Columns as learned by `learn_columns`; encodes any table that has them."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was proposed, and why

    def __post_init__(self) -> None:
        if not self.columns:
            raise NescioError("there are no columns; learn them from a table: learn_columns(table)")

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> list[str]:
        """A name for each of the F numbers of a row."""
        return [name for column in self.columns for name in column.features]

    @property
    def layout(self) -> list[list[Any]]:
        """`[kind, width]` of each column: what detectors need to read encoded rows."""
        return [[column.kind, column.width] for column in self.columns]

    def encode(self, table: Table) -> Encoded:
        """Rows as numbers; columns that the table has beside these are left out."""
        _check_table(table)
        parts = [_encode(column, table[column.name]) for column in self.columns]
        with np.errstate(over="ignore"):  # refused as infinity below
            x = np.concatenate([numbers for numbers, _, _ in parts], axis=1, dtype=np.float32)
        if not np.isfinite(x).all():
            at = self.features[int(np.isfinite(x).all(0).argmin())]
            raise NescioError(f"{at!r} has a value beyond float32; repair it")
        missing, unseen = (np.stack([part[i] for part in parts], axis=1) for i in (1, 2))
        return Encoded(*map(torch.from_numpy, (x, missing, unseen)))

    def save(self, path: str | Path) -> Path:
        """Write a JSON file."""
        save_manifest(Path(path), {"kind": "columns", "columns": [asdict(c) for c in self.columns]})
        return Path(path)


@readers.named("columns")
def _read(saved: Saved) -> Columns:
    given = saved.manifest["columns"]
    return Columns(tuple(Column(**{**one, "levels": tuple(one["levels"])}) for one in given))


def learn_columns(
    table: Table,
    kinds: Mapping[str, Kind] | None = None,
    *,
    levels: Mapping[str, Sequence[Any]] | None = None,
) -> Columns:
    """Kinds, levels, means and deviations of the columns of a table, the training rows.

    kinds: by column. Others are proposed: text is categorical, two numbers are categorical, up to
    ten ordinal, more continuous; `notes` says so. A proposal that looks like a mistake (a text that
    nearly every row has for itself) is refused. levels: of ordinal and categorical columns, in
    order; others have those of the table, numbers rising and text in alphabetical order.
    """
    _check_table(table)
    kinds, levels = kinds or {}, levels or {}
    for name in (*kinds, *levels):
        table[name]  # known?
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise NescioError(f"column {name!r}: {unknown('kind', kind, KINDS)}")
    learned, notes = [], []
    for name in table.names:
        values = table[name]
        kind = kinds.get(name) or _proposed(name, values)
        if name not in kinds:
            notes.append(f"{name}: {kind}, of {len(_present(values))} different values")
        one = _learn(name, kind, values, levels.get(name), proposed=name not in kinds)
        learned.append(one)
    return Columns(tuple(learned), tuple(notes))


def _check_table(table: Any) -> None:
    if not isinstance(table, Table):
        raise NescioError(
            f"expected a table, got a {type(table).__name__}; read it first: read_table(...)"
        )


def _present(values: Values) -> Values:
    """The different values that are there, in order."""
    return np.unique(values[~_holes(values)])


def _holes(values: Values) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values == "")


def _proposed(name: str, values: Values) -> Kind:
    different = len(_present(values))
    if values.dtype.kind == "f":
        return "categorical" if different <= 2 else "ordinal" if different <= FEW else "continuous"
    if different > FEW and 2 * different > (~_holes(values)).sum():
        raise NescioError(
            f"column {name!r} has {different} different texts in {len(values)} rows, like a name "
            "or a number of a person; leave it out with table.without, or give its kind"
        )
    return "categorical"


def _learn(
    name: str, kind: Kind, values: Values, levels: Sequence[Any] | None, *, proposed: bool
) -> Column:
    if kind == "continuous":
        mean, deviation = _moments(_numbers(name, values))
        return Column(name=name, kind=kind, mean=mean, deviation=deviation, proposed=proposed)
    present = dict.fromkeys(_level(value) for value in _present(values))
    order = tuple(present if levels is None else map(_level, levels))
    if len(set(order)) < len(order) or not order:
        raise NescioError(f"column {name!r} needs levels, each once, got {', '.join(order) or '-'}")
    if kind == "ordinal" and levels is None and values.dtype.kind != "f":
        raise NescioError(
            f"column {name!r} is ordinal and text: give its order, levels={{{name!r}: [...]}}"
        )
    if kind == "categorical":
        return Column(name=name, kind=kind, levels=order, proposed=proposed)
    indices, _, unseen = _level_indices(order, values)
    mean, deviation = _moments(np.where(unseen, np.nan, indices))
    return Column(
        name=name, kind=kind, levels=order, mean=mean, deviation=deviation, proposed=proposed
    )


def _moments(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and deviation of the present values; a constant has deviation 1."""
    present = values[~np.isnan(values)]
    if not len(present):
        return 0.0, 1.0
    deviation = float(present.std())
    return float(present.mean()), deviation if deviation > 1e-12 * abs(present).max() else 1.0


def _numbers(name: str, values: Values) -> NDArray[np.float64]:
    if values.dtype.kind == "f":
        return values
    for row, value in enumerate(values):
        try:
            float(value or "nan")
        except ValueError:
            raise NescioError(
                f"column {name!r} is continuous, but row {row} holds {str(value)!r}; repair it, "
                "name it in missing=, or make the column categorical"
            ) from None
    return np.array([float(value or "nan") for value in values])


def _level(value: Any) -> str:
    """A value as the name of a level: 1.0, 1, "1" and "1.0" are the same."""
    try:
        return f"{float(value):.15g}"
    except ValueError:
        return str(value)


def _level_indices(
    levels: Sequence[str], values: Values
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The index of each value among the levels (NaN: none), missing, unseen."""
    known = {level: float(index) for index, level in enumerate(levels)}
    different, inverse = np.unique(values, return_inverse=True)
    indices = np.array([known.get(_level(value), np.nan) for value in different])[inverse]
    missing = _holes(values)
    return np.where(missing, np.nan, indices), missing, np.isnan(indices) & ~missing


def _encode(
    column: Column, values: Values
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Numbers (N, width), missing (N,), unseen (N,)."""
    if column.kind == "continuous":
        indices = _numbers(column.name, values)
        missing = np.isnan(indices)
        unseen = np.zeros_like(missing)
    else:
        indices, missing, unseen = _level_indices(column.levels, values)
    absent = missing | unseen
    if column.kind == "categorical":
        numbers = (indices[:, None] == np.arange(len(column.levels))).astype(np.float64)
    else:
        numbers = np.where(absent, 0.0, (indices - column.mean) / column.deviation)[:, None]
    flags = np.stack([missing, unseen], axis=1)[:, : FLAGS[column.kind]]
    return np.concatenate([numbers, flags], axis=1), missing, unseen
