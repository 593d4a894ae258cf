"""Tables: columns by name, of numbers or text, from files, arrays and frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, unknown
from nescio.data.readers.csv import csv_words
from nescio.data.readers.parquet import parquet_words
from nescio.data.readers.raw_rows import MISSING, number

Values = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns by name, each with one value per row: numbers, or text. NaN and "" are missing.

    columns: values by name, each `(N,)` of float64 or of text.
    """

    columns: Mapping[str, Values]

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "fU":
                raise NescioError(f"column {name!r} is raw; make a table with read_table")
        lengths = {name: len(values) for name, values in self.columns.items()}
        if not lengths or not min(lengths.values()):
            raise NescioError("a table needs at least one column and one row")
        if len(set(lengths.values())) > 1:
            raise NescioError(f"columns of a table must have one length, got {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows; {', '.join(self.columns)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def __getitem__(self, name: str) -> Values:
        """One column."""
        if name not in self.columns:
            raise NescioError(unknown("column", name, self.columns))
        return self.columns[name]

    def rows(self, chosen: Any) -> "Table":
        """Some of the rows, `chosen` by a slice, indices or a mask."""
        return Table({name: values[chosen] for name, values in self.columns.items()})

    def only(self, *names: str) -> "Table":
        """Some of the columns, in this order."""
        return Table({name: self[name] for name in names})

    def without(self, *names: str) -> "Table":
        """All columns but some."""
        for name in names:
            self[name]  # known?
        return Table({name: v for name, v in self.columns.items() if name not in names})

    def changed(self, **columns: Any) -> "Table":
        """The same with some columns replaced or added."""
        return Table({**self.columns, **{name: column(name, v) for name, v in columns.items()}})


def read_table(
    source: Any,
    *,
    names: Sequence[str] | None = None,
    header: bool | None = None,
    missing: Sequence[str] = MISSING,
) -> Table:
    """A table from a CSV (plain, .gz, .xz) or Parquet file, a dict of arrays or a frame.

    A column whose values are all numbers holds numbers. A frame is a table of pandas or Arrow, or a
    structured array.

    source: a path, a dict of arrays by column, or a frame.
    names: names of the columns, where the file has no header; None: those of the header, or 0, 1,
      ...
    header: whether the first row holds names; None: see `is_header`.
    missing: texts that stand for no value; blanks around a value do not count.
    """
    if isinstance(source, Table):
        return source
    if names is not None and header:
        raise NescioError("give names= for a file without a header, or header=True, not both")
    if isinstance(source, (str, Path)):
        packed = str(source).lower().endswith(".parquet")
        source = parquet_words(source) if packed else csv_words(source, names=names, header=header)
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            raise NescioError(
                f"an array of a table must be structured, with named fields, got {source.dtype}; "
                'give a dict of arrays: {"age": ages, ...}'
            )
        source = {name: source[name] for name in source.dtype.names}
    if not isinstance(source, Mapping) and is_frame(source):
        labels = getattr(source, "column_names", None) or source.columns
        source = {label: source[label] for label in labels}
    if not isinstance(source, Mapping):
        raise NescioError(
            "a table is read from the path of a CSV or Parquet file, a dict of arrays, a "
            f"structured array or a table of pandas or Arrow, got {type(source).__name__}"
        )
    known = list(map(str, source))
    if len(set(known)) < len(known):
        raise NescioError(f"the table has two columns of one name: {', '.join(known)}; rename one")
    return Table({str(name): column(str(name), v, missing) for name, v in source.items()})


def is_frame(value: Any) -> bool:
    """Whether `value` is a table of nescio, pandas or Arrow."""
    names = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Table) or (names and hasattr(value, "__array__"))


def frame_names(data: Any) -> tuple[str, ...]:
    """The columns of a table `data`, or of the inputs of a pair; none for other data."""
    given = data[0] if isinstance(data, tuple) and data else data
    if not is_frame(given):
        return ()
    return tuple(map(str, getattr(given, "column_names", None) or given.columns))


def column(name: str, values: Any, missing: Sequence[str] = MISSING) -> Values:
    """Values as numbers with NaN, or as text with ""; None, NaN and the marks are missing."""
    kind: Any = getattr(values, "type", None)
    if hasattr(kind, "index_type"):  # of Arrow: numpy takes a null for the last entry
        values = values.cast(kind.value_type)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and hasattr(values, "isna"):  # pandas has a mark of its own
            array = array.copy()
            array[np.asarray(values.isna())] = None
    except (ValueError, TypeError, RuntimeError) as error:
        raise NescioError(
            f"column {name!r} is not an array of one value per row: {error}"
        ) from None
    if array.ndim != 1:
        raise NescioError(f"column {name!r} must be (N,), got shape {array.shape}")
    if array.dtype.kind in "biuf":
        return _finite(name, array.astype(np.float64))
    if array.dtype.kind not in "OUST":
        raise NescioError(
            f"column {name!r} must hold numbers or text, got {array.dtype}; of dates make numbers, "
            "such as days since the first"
        )
    cells = array.tolist()
    try:
        known = {value: _text(value) for value in set(cells)}  # few different ones, often
    except (TypeError, UnicodeDecodeError) as error:
        raise NescioError(f"column {name!r} must hold numbers or text: {error}") from None
    marks = set(missing)
    holes = {value for value, text in known.items() if text in marks}
    try:
        numbers = {v: np.nan if v in holes else number(text) for v, text in known.items()}
    except ValueError:
        return np.array(["" if value in holes else known[value] for value in cells])
    return _finite(name, np.array([numbers[value] for value in cells], dtype=np.float64))


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))  # as a column of truth values without holes
    return value.decode().strip() if isinstance(value, bytes) else str(value).strip()


def _finite(name: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).nonzero()[0][0])
        raise NescioError(
            f"column {name!r} holds infinity (first in row {row}); a missing value is NaN: "
            "repair it"
        )
    return numbers
