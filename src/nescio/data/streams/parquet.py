"""Rows of a Parquet file, a block at a time."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.data.streams.choosing import Names, chosen_columns
from nescio.data.streams.stream import Stream, exactly, same_file
from nescio.errors import NescioError


def parquet() -> ModuleType:
    """The package that reads and writes Parquet, or an error that says how to get it."""
    try:
        import pyarrow.parquet as found
    except ImportError as error:
        raise NescioError(
            "Parquet files need pyarrow: pip install nescio[scale]; or use .csv, .npy or .npz"
        ) from error
    module: ModuleType = found
    return module


def parquet_stream(
    path: str | Path,
    *,
    columns: Names = None,
    without: Names = None,
) -> Stream:
    """Rows of numbers; nulls are NaN.

    columns: only these, in this order. without: all but these.
    """
    path, package = Path(path), parquet()
    schema, total = _schema(path)
    known, kinds = list(schema.names), {field.name: field.type for field in schema}
    names = [known[place] for place in chosen_columns(path, known, columns, without)]
    text = [name for name in names if not _is_number(kinds[name])]
    if text:
        raise NescioError(
            f"column {text[0]!r} of {path} holds {kinds[text[0]]}, expected numbers; leave it out: "
            f"{path}:without={','.join(text)}"
        )
    if not total:
        raise NescioError(f"{path} has no rows; expected at least one")

    def read(start: int, size: int) -> Iterator[Tensor]:
        return exactly(_parts(package, path, names, start, size), size)

    identity = same_file(path, columns=names)
    return Stream(str(path), (len(names),), total, identity, read, columns=tuple(names))


def parquet_columns(path: str | Path) -> tuple[str, ...]:
    """The names of all columns, of numbers or not."""
    return tuple(_schema(Path(path))[0].names)


def _schema(path: Path) -> tuple[Any, int]:
    """What the columns hold, and how many rows there are."""
    try:
        with parquet().ParquetFile(path) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (OSError, ValueError) as error:
        raise NescioError(f"cannot read {path} as Parquet: {error}; write it again") from None


def _parts(
    package: ModuleType, path: Path, names: list[str], start: int, size: int
) -> Iterator[Tensor]:
    """Rows as they come, without the row groups before the first one wanted."""
    with package.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        first = 0
        while first < len(groups) and start >= groups[first]:
            start -= groups[first]
            first += 1
        wanted = list(range(first, len(groups)))
        if not wanted:
            return
        for batch in file.iter_batches(size, row_groups=wanted, columns=names):
            skipped = min(start, len(batch))
            start -= skipped
            yield _rows(batch, names)[skipped:]


def _rows(batch: Any, names: list[str]) -> Tensor:
    columns = (batch.column(name).cast("float64").to_numpy(zero_copy_only=False) for name in names)
    with np.errstate(over="ignore"):  # infinity is seen by whoever reads
        return torch.from_numpy(np.stack(list(columns), axis=1).astype(np.float32))


def _is_number(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind))
