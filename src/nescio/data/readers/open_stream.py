"""Inputs by name, a block at a time: what a path's ending says decides how it is read."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nescio.core import NescioError, did_you_mean
from nescio.data.readers.arrays import npy_stream, npz_stream
from nescio.data.readers.csv import csv_columns, csv_row, csv_stream
from nescio.data.readers.image_folders import folder_stream
from nescio.data.readers.parquet import is_parquet, matching, parquet_columns, parquet_stream
from nescio.data.readers.stream import Stream
from nescio.data.readers.ts import ts_stream

READERS: dict[str, Callable[..., Stream]] = {
    ".npy": npy_stream,
    ".npz": npz_stream,
    ".csv": csv_stream,
    ".csv.gz": csv_stream,
    ".csv.xz": csv_stream,
    ".parquet": parquet_stream,
    ".ts": ts_stream,
    ".ts.xz": ts_stream,
}


def is_streamed(path: str | Path) -> bool:
    """Whether a path is read by `open_stream`."""
    return Path(path).is_dir() or any(str(path).lower().endswith(ending) for ending in READERS)


def open_stream(path: str | Path, **options: Any) -> Stream:
    """Open inputs: .npy, .npz with `x`, .csv (.gz, .xz), .parquet, .ts, or a folder of images.

    A folder of .parquet files, or a pattern such as rows/*.parquet, is one table, in the order of
    their names.

    Options are those of the kind of file: columns, without and keep of tables, header of CSV,
    array of .npz, length of .ts, size and mode of images.
    """
    path = Path(path)
    reader = _reader(path)
    known = list(inspect.signature(reader).parameters)[1:]
    wrong = sorted(set(options) - set(known))
    if wrong:
        hint = did_you_mean(wrong[0], known).rstrip(".") or ";"
        raise NescioError(
            f"{path} has no option {', '.join(wrong)}{hint} its options: {', '.join(known) or '-'}"
        )
    return reader(path, **options)


def columns_of(path: str | Path, *, header: bool | None = None) -> tuple[str, ...] | None:
    """The names of all columns of a table, of numbers or not; None: it is not a table.

    header: of a CSV, whether its first row holds names.
    """
    path = Path(path)
    reader = _reader(path)
    if reader is csv_stream:
        return csv_columns(path, header=header)
    return parquet_columns(path) if reader is parquet_stream else None


def is_table(path: str | Path) -> bool:
    """Whether a path is that of a table with named columns."""
    if is_parquet(path):
        return True
    tables = [end for end, reader in READERS.items() if reader in (csv_stream, parquet_stream)]
    return str(path).lower().endswith(tuple(tables))


def row_of(path: str | Path, row: int, *, header: bool | None = None) -> str:
    """For a message: a row of a table, counted from 0, and its line where the file has lines."""
    lines = _reader(Path(path)) is csv_stream
    return csv_row(path, row, header=header) if lines else f"row {row}"


def is_there(path: str | Path) -> bool:
    """Whether there is a file or a folder of this name, or Parquet files of this pattern."""
    path = Path(path)
    return path.exists() or (is_parquet(path) and bool(matching(path)))


def _reader(path: Path) -> Callable[..., Stream]:
    if is_parquet(path) and is_there(path):
        return parquet_stream
    if not path.exists():
        raise NescioError(f"there is no file {path}; check the name")
    endings = [ending for ending in READERS if path.name.lower().endswith(ending)]
    if not endings and not path.is_dir():
        raise NescioError(
            f"cannot tell what {path} holds; expected {', '.join(READERS)} or a folder of images"
        )
    return folder_stream if path.is_dir() else READERS[max(endings, key=len)]
