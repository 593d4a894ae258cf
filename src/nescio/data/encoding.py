"""Kinds of columns, learned from a table: how rows become numbers, with flags for what is unknown.

A continuous column becomes its value less the mean, over the deviation, and a flag for missing. An
ordinal one becomes the same of its level's index, and flags for missing and for unseen levels. A
categorical one becomes a 0 or 1 for each level, and the same two flags. Where a flag is set, the
other numbers of the column are 0: nothing is guessed. A column of the kind "number" is taken as it
is, with NaN for missing. Columns that tell rows apart are left out.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, NescioWarning, Saved, readers, save_manifest, unknown
from nescio.data.readers.raw_rows import CellError, RawRows, number
from nescio.data.readers.stream import first_of
from nescio.data.table import Table, Values, read_table
from nescio.data.table import column as as_column

Kind: TypeAlias = Literal["continuous", "ordinal", "categorical", "number"]
KINDS = ("continuous", "ordinal", "categorical", "number")
FEW = 10  # different numbers up to which a column is proposed to be ordinal
MOST = 100  # levels of a categorical column; rarer ones are encoded as unseen
ROWS = 20  # from which on a column that differs in every row is taken for an identifier
ID = re.compile(r"(?:^|[\W_])(?:id|nbr|key|uid|uuid)$|^unnamed: 0$|^$", re.IGNORECASE)
TRUTH = {"true": "1", "false": "0"}  # truth values are numbers in frames, words in text
WHOLE = 1 << 53  # below it, every whole number is told from the next
FLAGS = {"continuous": 1, "ordinal": 2, "categorical": 2, "number": 0}  # last numbers of a column


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
    """Rows as numbers, and where a column had no value or a level that was not learned.

    x: the numbers, `(N, F)` of float32.
    missing: whether a column had no value, `(N, D)`.
    unseen: whether a column had a level that was not learned, `(N, D)`.
    """

    x: Tensor
    missing: Tensor
    unseen: Tensor


@dataclass(frozen=True)
class Columns:
    """Columns as learned by `learn_columns`; encodes any table that has them.

    columns: the inputs, each with its kind, levels, mean and deviation.
    notes: what was proposed, and why.
    ids: names of columns that tell rows apart and are not inputs.
    target: name of the column that is predicted; None: unknown.
    classes: levels of the target, where they are text.
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    ids: tuple[str, ...] = field(default=(), kw_only=True)
    target: str | None = field(default=None, kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)

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
    def width(self) -> int:
        """F, how many numbers a row becomes: the inputs of a network."""
        return sum(column.width for column in self.columns)

    @property
    def features(self) -> list[str]:
        """A name for each of the F numbers of a row."""
        return [name for column in self.columns for name in column.features]

    @property
    def layout(self) -> list[list[Any]]:
        """`[kind, width]` of each column: what detectors need to read encoded rows."""
        return [[column.kind, column.width] for column in self.columns]

    def encode(self, table: Table) -> Encoded:
        """Rows of `table` as numbers; columns that the table has beside these are left out."""
        _check_table(table)
        parts = [_encode(column, table[column.name]) for column in self.columns]
        with np.errstate(over="ignore"):  # refused as infinity below
            x = np.concatenate([numbers for numbers, _, _ in parts], axis=1, dtype=np.float32)
        self._finite(x)
        missing, unseen = (np.stack([part[i] for part in parts], axis=1) for i in (1, 2))
        return Encoded(*map(torch.from_numpy, (x, missing, unseen)))

    def _finite(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        if np.isinf(x).any():
            at = self.features[int(np.isinf(x).any(0).argmax())]
            raise NescioError(f"{at!r} has a value beyond float32; repair it")
        return x

    def numbers(self, rows: Any) -> Tensor:
        """`rows` of a table of any kind as numbers `(N, F)`; see `read_table`."""
        if not isinstance(rows, RawRows):
            return self.encode(read_table(rows)).x
        parts = [_of_cells(column, rows) for column in self.columns]
        return torch.from_numpy(self._finite(np.concatenate(parts, axis=1, dtype=np.float32)))

    def manifest(self) -> dict[str, Any]:
        """All of it as JSON, for files."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "ids": list(self.ids),
            "target": self.target,
            "classes": list(self.classes),
        }

    @staticmethod
    def from_manifest(given: Mapping[str, Any]) -> "Columns":
        """The columns that a file holds, `given` as `manifest` wrote them."""
        columns = (Column(**{**one, "levels": tuple(one["levels"])}) for one in given["columns"])
        more: dict[str, Any] = {n: tuple(given.get(n, ())) for n in ("ids", "classes")}
        return Columns(tuple(columns), target=given.get("target"), **more)

    def save(self, path: str | Path) -> Path:
        """Write the columns to the JSON file `path`."""
        save_manifest(Path(path), {"kind": "columns", **self.manifest()})
        return Path(path)


@readers.named("columns")
def _read(saved: Saved) -> Columns:
    return Columns.from_manifest(saved.manifest)


def learn_columns(
    table: Any,
    kinds: Mapping[str, Kind] | None = None,
    *,
    levels: Mapping[str, Sequence[Any]] | None = None,
    ids: Sequence[str] = (),
    most: int = MOST,
) -> Columns:
    """Kinds, levels, means and deviations of the columns of a table, the training rows.

    table: a `Table`, or what `read_table` reads.
    kinds: "continuous", "ordinal", "categorical" or "number" by column. Others are proposed: text
      is categorical, two numbers are categorical, up to ten ordinal, more continuous; `notes` says
      so. A proposal that looks like a mistake (a text that nearly every row has for itself) is
      refused.
    levels: levels of ordinal and categorical columns by name, in order; others have those of the
      table, numbers rising and text in alphabetical order.
    ids: columns that tell rows apart and are not inputs. With a warning, a column without a kind is
      taken for one if it is a text that differs in every row, or whole numbers that count the rows,
      or that mostly differ and have the name of an id; from 20 rows on.
    most: largest number of levels of a categorical column, the most frequent ones; the rarer ones
      are encoded as unseen, as are those that come later.
    """
    table = read_table(table)
    kinds, levels = kinds or {}, levels or {}
    for name in (*kinds, *levels, *ids):
        table[name]  # known?
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise NescioError(f"column {name!r}: {unknown('kind', kind, KINDS)}")
    apart = [n for n in table.names if n not in {*kinds, *levels} and _is_id(n, table[n])]
    learned, notes = [], [f"{name}: left out as an id, it only tells rows apart" for name in apart]
    for name in table.names:
        if name in (*apart, *ids):
            continue
        values = table[name]
        kind = kinds.get(name) or _proposed(name, values)
        if name not in kinds:
            notes.append(f"{name}: {kind}, of {len(_present(values))} different values")
        order = levels.get(name)
        if order is None and kind == "categorical":
            order, rare = _frequent(values, most)
            notes += [f"{name}: {rare} rarer levels are encoded as unseen"] if rare else []
        learned.append(_learn(name, kind, values, order, proposed=name not in kinds))
    if found := [name for name in apart if name not in ids]:
        warnings.warn(
            f"left out as ids, since they only tell rows apart: {first_of(found)}; name ids with "
            "ids=, or FILE:keep=... on the command line; an input needs its kind, "
            "learn_columns(table, {...})",
            NescioWarning,
            stacklevel=2,
        )
    return Columns(tuple(learned), tuple(notes), ids=tuple(dict.fromkeys((*ids, *apart))))


def as_they_are(names: Sequence[str]) -> Columns:
    """Columns of numbers that a network reads as they are, by their `names`."""
    return Columns(tuple(Column(name=name, kind="number") for name in names))


def _is_id(name: str, values: Values) -> bool:
    """Whether a column only tells rows apart: all differ, or most where its name says so."""
    different = len(_present(values))
    if len(values) < ROWS or 2 * different <= len(values):
        return False
    if values.dtype.kind != "f":
        return different == len(values)
    whole = bool((values == values.round()).all())
    counted = different == len(values) and np.ptp(values) + 1 == len(values)
    return whole and (counted or ID.search(name) is not None)


def _frequent(values: Values, most: int) -> tuple[list[Any] | None, int]:
    """The most frequent levels in their order, and the number of others; None: all of them."""
    different, counts = np.unique(values[~_holes(values)], return_counts=True)
    if len(different) <= most:
        return None, 0
    chosen = np.sort(np.argsort(-counts, kind="stable")[:most])
    return list(different[chosen]), len(different) - most


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
        if not different:
            return "continuous"  # only its flag can say anything
        return "categorical" if different <= 2 else "ordinal" if different <= FEW else "continuous"
    if different > FEW and 2 * different > (~_holes(values)).sum():
        raise NescioError(
            f"column {name!r} has {different} different texts in {len(values)} rows, like a name "
            "or a number of a person; leave it out (table.without, or FILE:without=... and "
            "FILE:keep=... on the command line), or give its kind"
        )
    return "categorical"


def _learn(
    name: str, kind: Kind, values: Values, levels: Sequence[Any] | None, *, proposed: bool
) -> Column:
    if kind == "number":
        _numbers(name, values)
        return Column(name=name, kind=kind, proposed=proposed)
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
    found = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            found[row] = number(str(value))
        except ValueError:
            raise CellError(name, row, str(value)) from None
    return found


def _level(value: Any) -> str:
    """A value as the name of a level: 1.0, 1, "1", "1.0", True and "True" are the same."""
    try:
        found = number(str(value))
    except ValueError:
        return TRUTH.get(str(value).lower(), str(value))
    return f"{found:.0f}" if found.is_integer() and abs(found) < WHOLE else f"{found:.15g}"


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
    if column.kind in ("continuous", "number"):
        indices = _numbers(column.name, values)
        missing = np.isnan(indices)
        unseen = np.zeros_like(missing)
    else:
        indices, missing, unseen = _level_indices(column.levels, values)
    absent = missing | unseen
    if column.kind == "categorical":
        numbers = (indices[:, None] == np.arange(len(column.levels))).astype(np.float64)
    elif column.kind == "number":
        numbers = indices[:, None]
    else:
        numbers = np.where(absent, 0.0, (indices - column.mean) / column.deviation)[:, None]
    flags = np.stack([missing, unseen], axis=1)[:, : FLAGS[column.kind]]
    return np.concatenate([numbers, flags], axis=1), missing, unseen


def _of_cells(column: Column, rows: RawRows) -> NDArray[np.float32]:
    """Numbers (N, width) of one column: each different cell is encoded once."""
    index = rows.index[column.name]
    used, inverse = np.unique(index, return_inverse=True)
    different = [rows.different[column.name][place] for place in used]
    try:
        with np.errstate(over="ignore"):  # infinity is refused later
            numbers = _encode(column, as_column(column.name, different))[0].astype(np.float32)
    except CellError as bad:
        row = int((inverse == bad.row).argmax())
        raise CellError(bad.name, row, bad.cell) from None
    return np.asarray(numbers[inverse])
