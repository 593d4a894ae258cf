"""Rows of a Parquet file, a block at a time."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.data.readers.raw_rows import Encoder, RawRows, encoded_rows
from nescio.data.readers.stream import (
    Names,
    Stream,
    Words,
    chosen_columns,
    exactly,
    kept_in_order,
    listed,
    places_of,
    same_file,
)

ROWS = 1 << 16  # that are read at a time


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
    keep: Names = None,
    encode: Encoder | None = None,
) -> Stream:
    """Rows of numbers; nulls are NaN.

    columns: only these, in this order. without: all but these. keep: columns that are copied
    through as text; no inputs, unless `columns` has them too. encode: makes numbers of its
    columns, which may hold text; others are left out.
    """
    path, package = Path(path), parquet()
    columns = columns if encode is None else encode.names
    schema, total = _schema(path)
    known, kinds = list(schema.names), {field.name: field.type for field in schema}
    names = [known[place] for place in chosen_columns(path, known, columns, without, keep)]
    own = [known[place] for place in places_of(path, known, keep)]
    text = [name for name in names if not _is_number(kinds[name])]
    if text and encode is None:
        said = f"column {text[0]!r} of {path} holds {kinds[text[0]]}, expected numbers; encode it "
        if columns is not None:
            raise NescioError(f"{said}(docs/guide/tables.md)")
        raise NescioError(
            f"{said}(docs/guide/tables.md) or leave it out: "
            f"{path}:without={','.join([*listed(without), *text])}"
        )
    if not total:
        raise NescioError(f"{path} has no rows; expected at least one")

    def read(start: int, size: int) -> Iterator[Tensor]:
        parts = _batches(package, path, names, start, size if encode is None else ROWS)
        if encode is None:
            return exactly((_rows(batch, names) for batch in parts), size)
        cells = (_cells(batch, names) for batch in parts)
        return exactly(encoded_rows(cells, encode, start, lambda at: f"row {at} of {path}"), size)

    def words(start: int) -> Iterator[Words]:
        return (_words(path, batch, own) for batch in _batches(package, path, own, start, ROWS))

    identity = same_file(path, columns=names)
    width = len(names) if encode is None else encode.width
    if encode is not None:
        identity["encoding"] = encode.manifest()
    found = Stream(str(path), (width,), total, identity, read, columns=tuple(names))
    if not own:
        return found
    return replace(found, identity={**identity, "keep": own}, kept=kept_in_order(own, words))


def parquet_columns(path: str | Path) -> tuple[str, ...]:
    """The names of all columns, of numbers or not."""
    return tuple(_schema(Path(path))[0].names)


def parquet_words(path: str | Path) -> dict[str, Any]:
    """All columns of a file by name, as they stand; a null is None, or NaN among numbers."""
    path, package = Path(path), parquet()
    names = list(parquet_columns(path))
    chosen_columns(path, names, None, None)  # each once?
    parts = [_cells(batch, names) for batch in _batches(package, path, names, 0, ROWS)]
    if not parts:
        raise NescioError(f"{path} has no rows; expected at least one")
    return {
        name: [part.different[name][at] for part in parts for at in part.index[name]]
        for name in names
    }


def _schema(path: Path) -> tuple[Any, int]:
    """What the columns hold, and how many rows there are."""
    try:
        with parquet().ParquetFile(path) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> NescioError:
    return NescioError(
        f"cannot read {path} as Parquet, it is damaged, cut off or something else ({error}); copy "
        "it again, or write it again"
    )


def _batches(
    package: ModuleType, path: Path, names: list[str], start: int, size: int
) -> Iterator[Any]:
    """Rows as they come, without the row groups before the first one wanted; checksums are read."""
    try:
        yield from _checked_batches(package, path, names, start, size)
    except (OSError, ValueError) as error:
        if isinstance(error, NescioError):
            raise
        raise _damaged(path, error) from None


def _checked_batches(
    package: ModuleType, path: Path, names: list[str], start: int, size: int
) -> Iterator[Any]:
    with package.ParquetFile(path, page_checksum_verification=True) as file:
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
            yield batch.slice(skipped)


def _cells(batch: Any, names: list[str]) -> RawRows:
    """Columns as they stand; a null is None."""
    different, index = {}, {}
    for name in names:
        values = batch.column(name)
        if _is_number(values.type):
            different[name] = values.cast("float64").to_numpy(zero_copy_only=False)
            index[name] = np.arange(len(values))
            continue
        coded = values.dictionary_encode()
        different[name] = [*coded.dictionary.to_pylist(), None]
        index[name] = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    return RawRows(different, index)


def _words(path: Path, batch: Any, names: list[str]) -> Words:
    """Columns as text; nulls are empty."""
    try:
        cells = [batch.column(name).cast("string").fill_null("").to_pylist() for name in names]
    except (ValueError, NotImplementedError) as error:
        raise NescioError(f"{path} has a column that is not text: {error}; keep another") from None
    return np.array(cells, str).reshape(len(names), -1).T


def _rows(batch: Any, names: list[str]) -> Tensor:
    columns = (batch.column(name).cast("float64").to_numpy(zero_copy_only=False) for name in names)
    with np.errstate(over="ignore"):  # infinity is seen by whoever reads
        return torch.from_numpy(np.stack(list(columns), axis=1).astype(np.float32))


def _is_number(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind))
