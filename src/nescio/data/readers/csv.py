"""Rows of a CSV file, a block at a time."""

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.data.readers.raw_rows import (
    MISSING,
    Encoder,
    RawRows,
    encoded_rows,
    is_header,
    is_number,
    number,
)
from nescio.data.readers.stream import (
    Names,
    Stream,
    Words,
    chosen_columns,
    exactly,
    first_of,
    kept_in_order,
    listed,
    places_of,
    same_file,
)

R = TypeVar("R", Tensor, Words, RawRows, list[list[str]])
Read = Callable[["Layout", bytes, int], R]  # of a piece of the file and the number of its first row

CHUNK = 1 << 23  # bytes of text that are read at a time
SEPARATORS = b",;\t"
BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, csv.Error)


@dataclass(frozen=True)
class Layout:
    """How a file of rows is read."""

    path: Path
    separator: str
    header: bool
    names: tuple[str, ...]  # of all columns
    places: tuple[int, ...]  # of the chosen ones
    kept: tuple[int, ...] = ()  # of those that are copied through
    without: tuple[str, ...] | None = None  # left out; None: the chosen ones were named

    @property
    def plain(self) -> bool:
        """Whether all columns are taken, as they stand."""
        return self.places == tuple(range(len(self.names)))


def csv_stream(
    path: str | Path,
    *,
    columns: Names = None,
    without: Names = None,
    keep: Names = None,
    header: bool | None = None,
    encode: Encoder | None = None,
) -> Stream:
    """Rows of numbers; a missing value is NaN. The file is plain, .gz or .xz.

    columns: only these, in this order. without: all but these. keep: columns that are copied
    through as text; no inputs, unless `columns` has them too. header: whether the first row holds
    names; None: it does if one of its values is not a number, or if they are 0, 1, 2, ... in
    order, as pandas numbers columns. Without it, columns are 0, 1, ... encode: makes numbers of
    its columns, which may hold text; others are left out.
    """
    path = Path(path)
    columns = columns if encode is None else encode.names
    with _reading(path):
        layout = _layout(path, columns, without, header, keep)
        with _opened(path) as file:
            if not _count(layout, next(_chunks(layout, file), b"\n")):
                raise NescioError(f"{path} has a header but no rows; expected at least one")

    def where(row: int) -> str:
        return f"{csv_row(path, row, header=layout.header)} of {path}"

    def read(start: int, size: int) -> Iterator[Tensor]:
        if encode is None:
            return exactly(_rows(layout, start, _inputs), size)
        return exactly(encoded_rows(_rows(layout, start, _cells), encode, start, where), size)

    names = tuple(layout.names[place] for place in layout.places)
    identity = same_file(path, columns=list(names), header=layout.header)
    width = len(names) if encode is None else encode.width
    if encode is not None:
        identity["encoding"] = encode.manifest()
    found = Stream(str(path), (width,), None, identity, read, columns=names)
    if not layout.kept:
        return found
    own = [layout.names[place] for place in layout.kept]
    kept = kept_in_order(own, lambda start: _rows(layout, start, _words))
    return replace(found, identity={**identity, "keep": own}, kept=kept)


def csv_columns(path: str | Path, *, header: bool | None = None) -> tuple[str, ...]:
    """The names of all columns; those of a file without a header are 0, 1, ..."""
    with _reading(path):
        return _layout(Path(path), None, None, header).names


def csv_words(
    path: str | Path, *, names: Sequence[str] | None = None, header: bool | None = None
) -> dict[str, list[str]]:
    """All columns of a file by name, as text; the stream read to its end.

    names: of a file without a header; otherwise they are those of the header, or 0, 1, ...
    """
    path = Path(path)
    with _reading(path):
        layout = _layout(path, None, None, False if names is not None else header)
        if names is not None:
            layout = replace(layout, names=tuple(map(str, names)))
        rows = [row for part in _rows(layout, 0, _even) for row in part]
    if not rows:
        raise NescioError(f"{path} has a header but no rows; expected at least one")
    return dict(zip(layout.names, map(list, zip(*rows, strict=True)), strict=True))


def csv_row(path: str | Path, row: int, *, header: bool | None = None) -> str:
    """For a message: a row, counted from 0, and the line of the file, from 1, where it begins."""
    layout = _layout(Path(path), None, None, header)
    begins, at = 1, -int(layout.header)
    with io.TextIOWrapper(_opened(layout.path), "utf-8-sig", newline="") as text:
        lines = csv.reader(text, delimiter=layout.separator)
        for cells in lines:
            counts = bool(cells) or len(layout.names) == 1
            if counts and at == row:
                break
            at += counts
            begins = lines.line_num + 1
    return f"row {row} (line {begins} of the file)"


def _layout(
    path: Path, columns: Names, without: Names, header: bool | None, keep: Names = None
) -> Layout:
    with _opened(path) as file:
        text = file.readline()
    line = text.decode("utf-8-sig").rstrip("\r\n")
    if not line.strip():
        what = "begins with a blank line" if text else "is empty"
        raise NescioError(f"{path} {what}; expected rows, with a header or without")
    separator = max((chr(mark) for mark in SEPARATORS), key=line.count)
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    named = is_header(cells) if header is None else header
    names = cells if named else [str(place) for place in range(len(cells))]
    places = chosen_columns(path, names, columns, without, keep)
    kept = tuple(places_of(path, names, keep))
    left = None if columns is not None else tuple(listed(without))
    return Layout(path, separator, named, tuple(names), tuple(places), kept, left)


def _rows(layout: Layout, start: int, read: Read[R]) -> Iterator[R]:
    """What is read of the rows from `start` on, as they come; those before are only counted."""
    row = 0
    with _reading(layout.path), _opened(layout.path) as file:
        for chunk in _chunks(layout, file):
            count = _count(layout, chunk)
            if start < row + count:
                yield read(layout, chunk, row)[max(0, start - row) :]
            row += count


def _inputs(layout: Layout, chunk: bytes, first: int) -> Tensor:
    with np.errstate(over="ignore"):  # infinity is seen by whoever reads
        return torch.from_numpy(_numbers(layout, chunk, first).astype(np.float32))


def _cells(layout: Layout, chunk: bytes, first: int) -> RawRows:
    """The chosen columns as text."""
    columns = [layout.names[place] for place in layout.places]
    table = _arrow(layout, chunk, text=True) if _is_even(layout, chunk) else None
    if table is not None:
        parts = [column.combine_chunks() for column in table.columns]
        different = [part.dictionary.to_pylist() for part in parts]
        index = [part.indices.to_numpy(zero_copy_only=False) for part in parts]
    else:
        rows = _even(layout, chunk, first)
        texts = [[row[place] for row in rows] for place in layout.places]
        different = [list(dict.fromkeys(text)) for text in texts]
        numbers = [{cell: number for number, cell in enumerate(one)} for one in different]
        pairs = zip(numbers, texts, strict=True)
        index = [np.array([known[cell] for cell in text]) for known, text in pairs]
    return RawRows(
        dict(zip(columns, different, strict=True)), dict(zip(columns, index, strict=True))
    )


def _words(layout: Layout, chunk: bytes, first: int) -> Words:
    """The columns that are copied through."""
    rows = _even(layout, chunk, first)
    return np.array([[cells[place] for place in layout.kept] for cells in rows], str)


def _chunks(layout: Layout, file: IO[bytes]) -> Iterator[bytes]:
    """Pieces of the file that end where a row ends; without the header and with \\n alone."""
    rest = b""
    if layout.header:
        file.readline()
    elif file.read(3) != b"\xef\xbb\xbf":  # a mark of UTF-8
        file.seek(0)
    while read := file.read(CHUNK):
        rest += read
        end = rest.rfind(b"\n") + 1
        while end and rest.count(b'"', 0, end) % 2:  # within quotes a line end ends no row
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end].replace(b"\r\n", b"\n")
            rest = rest[end:]
    if rest.strip() or (rest and len(layout.names) == 1):
        yield rest.replace(b"\r\n", b"\n")


def _count(layout: Layout, chunk: bytes) -> int:
    """Rows of a chunk; of several columns, empty lines are none."""
    blank = b"\n\n" in chunk or chunk.startswith(b"\n")
    if b'"' in chunk or (blank and len(layout.names) > 1):
        return sum(1 for _ in _records(layout, chunk))
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _records(layout: Layout, chunk: bytes) -> Iterator[list[str]]:
    """Rows of cells; a blank line of a single column is an empty cell, of several it is none."""
    text = io.StringIO(chunk.decode("utf-8"), newline="")
    is_open = chunk.count(b'"') % 2 == 1  # a quote, unless it stands within a value
    rows = csv.reader(text, delimiter=layout.separator, strict=is_open)
    return (row or [""] for row in rows if row or len(layout.names) == 1)


def _numbers(layout: Layout, chunk: bytes, first: int) -> NDArray[np.float64]:
    """The chosen columns of a chunk: at once where all is plain numbers, or value by value."""
    if _is_even(layout, chunk):
        try:
            return _fast(layout, chunk)
        except ValueError:  # a missing value, or a text: it is found below
            pass
    rows = _even(layout, chunk, first)
    return np.stack([_column(layout, rows, place, first) for place in layout.places], axis=1)


def _fast(layout: Layout, chunk: bytes) -> NDArray[np.float64]:
    table = _arrow(layout, chunk, text=False)
    if table is None:
        if len(layout.names) == 1 and _count(layout, chunk) != len(chunk.split()):
            raise ValueError  # numpy leaves blank lines out
        return np.loadtxt(
            io.BytesIO(chunk),
            np.float64,
            comments=None,
            delimiter=layout.separator,
            usecols=None if layout.plain else layout.places,
            ndmin=2,
            encoding="utf-8",
        )
    rows = np.empty((len(table), len(layout.places)))
    for place, values in enumerate(table.columns):
        rows[:, place] = values.to_numpy()
    return rows


def _arrow(layout: Layout, chunk: bytes, *, text: bool) -> Any:
    """The chosen columns as Arrow reads them, numbers or different texts; None: it is not there."""
    try:
        import pyarrow as pa
        from pyarrow import csv as reader
    except ImportError:
        return None
    wanted = [str(place) for place in layout.places]
    kind = pa.dictionary(pa.int32(), pa.string()) if text else pa.float64()
    return reader.read_csv(
        pa.BufferReader(chunk),
        reader.ReadOptions(
            use_threads=False,
            block_size=len(chunk) + 1,
            column_names=[str(place) for place in range(len(layout.names))],
        ),
        reader.ParseOptions(delimiter=layout.separator, ignore_empty_lines=len(layout.names) > 1),
        reader.ConvertOptions(
            check_utf8=text,
            null_values=list(MISSING),
            column_types=dict.fromkeys(wanted, kind),
            include_columns=wanted,
        ),
    )


def _is_even(layout: Layout, chunk: bytes) -> bool:
    """Whether each line has as many values as there are columns, and none is quoted."""
    if b'"' in chunk:
        return False
    text = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    ends = ends if len(ends) and ends[-1] == len(text) - 1 else np.append(ends, len(text))
    marks = np.flatnonzero(text == ord(layout.separator))
    before = np.searchsorted(marks, ends)
    return bool((np.diff(before, prepend=0) == len(layout.names) - 1).all())


def _even(layout: Layout, chunk: bytes, first: int) -> list[list[str]]:
    """The values of each row, which must be as many as there are columns."""
    rows = list(_records(layout, chunk))
    for place, row in enumerate(rows, first):
        if len(row) != len(layout.names):
            where = csv_row(layout.path, place, header=layout.header)
            hint = f"quote values that hold {layout.separator!r}"
            if len(row) < len(layout.names):
                hint = "is the file cut off? Write it again, or leave the row out"
            raise NescioError(
                f"{layout.path}: {where} has {len(row)} values, expected {len(layout.names)} "
                f"({first_of(layout.names)}): {hint}"
            )
    return rows


def _column(
    layout: Layout, rows: Sequence[Sequence[str]], place: int, first: int
) -> NDArray[np.float64]:
    name = layout.names[place]
    cells = [row[place].strip() for row in rows]
    try:
        return np.array([number(cell) for cell in cells])
    except ValueError:
        bad = next(i for i, cell in enumerate(cells) if not is_number(cell))
        where = csv_row(layout.path, first + bad, header=layout.header)
        if layout.without is None:  # this column is needed
            raise NescioError(
                f"{where}: {cells[bad]!r} is not a number in column {name!r} of {layout.path}; fix "
                "it or leave the cell empty, or, if the network does not take the column, leave it "
                f"out: {layout.path}:without={name}"
            ) from None
        left = ",".join([*layout.without, name])
        raise NescioError(
            f"column {name!r} of {layout.path} holds {cells[bad]!r} in {where}, expected a number; "
            f"encode it (docs/guide/tables.md) or leave it out: {layout.path}:without={left}"
        ) from None


def _opened(path: Path) -> IO[bytes]:
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
    opened: IO[bytes] = openers.get(path.suffix, open)(path, "rb")
    return opened


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NescioError(f"no file {path}; check the name") from None
    except BROKEN as error:
        raise NescioError(
            f"cannot read {path}: {error}; is it damaged or cut off? Expected a CSV file in UTF-8, "
            "plain, .gz or .xz"
        ) from None
