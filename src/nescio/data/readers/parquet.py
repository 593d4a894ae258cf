"""Rows of a Parquet file, or of several as one, a block at a time."""

import glob
import hashlib
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError, known_by
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
ENDING = ".parquet"


@dataclass(frozen=True)
class File:
    """One of the files of a data set, as it was named and where it is."""

    path: Path
    rows: int
    place: Path  # other processes may work in another folder


def _file(path: Path, rows: int) -> File:
    return File(path, rows, path.absolute())


def is_parquet(path: str | Path) -> bool:
    """Whether a path is that of a Parquet file, a folder of them, or a pattern such as a*.parquet.

    A folder is one if it holds such files itself, not in folders within it.
    """
    path = Path(path)
    if path.is_dir():
        return any(_is_data(one) for one in path.iterdir())
    return path.name.lower().endswith(ENDING)


def parquet_paths(path: str | Path) -> list[Path]:
    """The files of a path, a folder or a pattern, in the order of their names."""
    path = Path(path)
    if path.is_dir():
        return sorted(one for one in path.iterdir() if _is_data(one))
    return [path] if path.exists() else matching(path) or [path]


def matching(path: Path) -> list[Path]:
    """The files of a pattern, in the order of their names; empty where it is none."""
    return sorted(Path(one) for one in glob.glob(str(path)) if _is_data(Path(one)))


def _is_data(path: Path) -> bool:
    """Whether a file holds rows: what begins with a dot or an underscore is about the others."""
    return path.name.lower().endswith(ENDING) and path.name[0] not in "._"


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

    path: a file, or a folder or pattern of files with the same columns: the rows of all of them,
    in the order of their names. columns: only these, in this order. without: all but these.
    keep: columns that are copied through as text; no inputs, unless `columns` has them too.
    encode: makes numbers of its columns, which may hold text; others are left out.
    """
    path, package = Path(path), parquet()
    columns = columns if encode is None else encode.names
    schema, files = _schema(path)
    total = sum(file.rows for file in files)
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
        parts = _batches(package, files, names, start, size if encode is None else ROWS)
        if encode is None:
            return exactly((_rows(batch, names) for batch in parts), size)
        cells = (_cells(batch, names) for batch in parts)
        return exactly(encoded_rows(cells, encode, start, lambda at: f"row {at} of {path}"), size)

    def words(start: int) -> Iterator[Words]:
        return (_words(path, batch, own) for batch in _batches(package, files, own, start, ROWS))

    identity = _identity(files, names)
    width = len(names) if encode is None else encode.width
    if encode is not None:
        identity["encoding"] = encode.manifest()
    found = Stream(str(path), (width,), total, identity, read, columns=tuple(names), sharded=True)
    if not own:
        return found
    return replace(found, identity={**identity, "keep": own}, kept=kept_in_order(own, words))


def parquet_columns(path: str | Path) -> tuple[str, ...]:
    """The names of all columns, of numbers or not."""
    return tuple(_schema(Path(path))[0].names)


def parquet_words(path: str | Path) -> dict[str, Any]:
    """All columns of a file by name, as they stand; a null is None, or NaN among numbers."""
    path, package = Path(path), parquet()
    schema, files = _schema(path)
    names = list(schema.names)
    chosen_columns(path, names, None, None)  # each once?
    parts = [_cells(batch, names) for batch in _batches(package, files, names, 0, ROWS)]
    if not parts:
        raise NescioError(f"{path} has no rows; expected at least one")
    return {
        name: [part.different[name][at] for part in parts for at in part.index[name]]
        for name in names
    }


def _identity(files: Sequence[File], names: list[str]) -> dict[str, Any]:
    """What tells the rows of files from others: the content of each, whatever its name."""
    if len(files) == 1:
        return same_file(files[0].path, columns=names)
    total = hashlib.blake2b(digest_size=16)
    for file in files:
        total.update(f"{known_by(file.path)}\n".encode())
    return {"files": len(files), "digest": total.hexdigest(), "columns": names}


def _schema(path: Path) -> tuple[Any, list[File]]:
    """What the columns hold, the same in all files, and the files with their numbers of rows."""
    paths = parquet_paths(path)
    first, rows = _footer(paths[0])
    files, kinds = [_file(paths[0], rows)], _kinds(first)
    for one in paths[1:]:
        schema, rows = _footer(one)
        other = _kinds(schema)
        if other != kinds:
            differ = next(iter(dict(kinds.items() ^ other.items())))
            raise NescioError(
                f"{one} has other columns than {paths[0]}: {differ!r} is in one of them, or holds "
                "numbers in one and text in the other; write both alike, or name one of them"
            )
        files.append(_file(one, rows))
    return first, files


def _kinds(schema: Any) -> dict[str, bool]:
    """Which columns hold numbers."""
    return {field.name: _is_number(field.type) for field in schema}


def _footer(path: Path) -> tuple[Any, int]:
    """What the columns of a file hold, and how many rows it has."""
    try:
        with parquet().ParquetFile(path) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (OSError, ValueError) as error:
        raise _damaged(_file(path, 0), error) from None


def _damaged(file: File, error: Exception) -> NescioError:
    if isinstance(error, FileNotFoundError):
        return NescioError(
            f"there is no file {file.place} on {platform.node()}; all machines that work on it "
            "must see it under this name, as in a folder that they share"
        )
    return NescioError(
        f"cannot read {file.path} as Parquet, it is damaged, cut off or something else ({error}); "
        "copy it again, or write it again"
    )


def _batches(
    package: ModuleType, files: Sequence[File], names: list[str], start: int, size: int
) -> Iterator[Any]:
    """Rows as they come, without the row groups before the first one wanted; checksums are read."""
    for file in files:
        if start >= file.rows:
            start -= file.rows
            continue
        try:
            yield from _checked_batches(package, file, names, start, size)
        except (OSError, ValueError) as error:
            if isinstance(error, NescioError):
                raise
            raise _damaged(file, error) from None
        start = 0


def _checked_batches(
    package: ModuleType, known: File, names: list[str], start: int, size: int
) -> Iterator[Any]:
    with package.ParquetFile(known.place, page_checksum_verification=True) as file:
        if file.metadata.num_rows != known.rows:
            raise NescioError(
                f"{known.path} has {file.metadata.num_rows} rows and had {known.rows}; was it "
                "changed meanwhile?"
            )
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
