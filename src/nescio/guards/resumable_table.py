"""A long table that is written part by part, so that a run that was killed goes on.

Beside the table stands a folder with its finished parts and a journal. A part is there as soon as
the journal counts it; what a crash left behind is written over. At the end the parts are joined,
and the journal is the first to go: parts without one are leftovers.
"""

import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import (
    NescioError,
    check_same_run,
    make_folder,
    write_atomically,
    write_json,
    writing_atomically,
)
from nescio.data.readers.parquet import parquet
from nescio.guards.text_columns import csv_header, csv_lines, json_lines

Columns = Mapping[str, NDArray[Any]]
Join = Callable[[Sequence[Path], IO[bytes]], None]


@dataclass(frozen=True)
class Table:
    """A table under way: what it is made of, and how far it is."""

    out: Path
    identity: Mapping[str, Any]  # JSON: inputs, guard, size of a part
    rows: int = 0  # done
    parts: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)  # of what was written, summed

    @property
    def folder(self) -> Path:
        """Where the parts are until all is done."""
        return self.out.with_name(f"{self.out.name}.parts")

    @property
    def summary(self) -> Path:
        """The file beside the table that says what is in it."""
        return summary_path(self.out)

    def add(self, part: bytes, rows: int, counts: Mapping[str, int]) -> "Table":
        """The table with one more part, as `format_of` writes it, which is then safe."""
        write_atomically(self._part(self.parts), part)
        known = {name: self.counts.get(name, 0) for name in (*self.counts, *counts)}
        summed = {name: value + counts.get(name, 0) for name, value in known.items()}
        done = replace(self, rows=self.rows + rows, parts=self.parts + 1, counts=summed)
        write_json(done.folder / JOURNAL, done._journal())
        return done

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Join the parts, write the summary, and remove the parts."""
        _, join = format_of(self.out)
        with writing_atomically(self.out) as file:
            join([self._part(number) for number in range(self.parts)], file)
        write_json(self.summary, {**summary, "run": dict(self.identity)})
        _remove(self.folder)

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}{self.out.suffix}"

    def _journal(self) -> dict[str, Any]:
        own = {"rows": self.rows, "parts": self.parts, "counts": dict(self.counts)}
        return {"run": dict(self.identity), **own}


JOURNAL = "journal.json"
ANEW = "start again with --restart, in Python resume=False"


def summary_path(out: Path) -> Path:
    """Where the summary of a table is."""
    return out.with_name(f"{out.name}.json")


def begin(out: Path, identity: Mapping[str, Any], *, resume: bool) -> Table:
    """A new table, or the one that a stopped run of the same identity left."""
    format_of(out)
    identity = json.loads(json.dumps(identity))
    fresh = Table(out, identity)
    journal = fresh.folder / JOURNAL
    if resume and journal.exists():
        there = _read(journal)
        known = {**identity, "part": there["run"].get("part")}  # parts stay as large as they were
        check_same_run(fresh.folder, there["run"], known, ANEW)
        table = Table(out, known, there["rows"], there["parts"], there["counts"])
        for lost in (path for path in map(table._part, range(table.parts)) if not path.exists()):
            raise NescioError(f"{lost} is missing, a part of a stopped run; {ANEW}")
        return table
    _remove(fresh.folder)
    make_folder(fresh.folder)
    write_json(journal, fresh._journal())
    return fresh


def rows_done(out: Path) -> int:
    """Rows that a stopped run has written; 0 without one."""
    if out.is_dir():
        return 0
    journal = Table(out, {}).folder / JOURNAL
    return int(_read(journal).get("rows", 0)) if journal.exists() else 0


def finished(out: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The summary of a table that is complete; None where it is still to be made.

    A table of other inputs or of another guard is refused.
    """
    folder = Table(out, {}).folder
    if not out.exists() or (folder / JOURNAL).exists():
        return None
    if not summary_path(out).exists():
        raise NescioError(f"{out} is there already; choose another name, or {ANEW}")
    there = _read(summary_path(out))
    known = {**identity, "part": there["run"].get("part")}
    check_same_run(out, there["run"], json.loads(json.dumps(known)), ANEW)
    _remove(folder)
    return there


def _remove(folder: Path) -> None:
    """Remove parts; the journal first, as it must not count what is gone."""
    (folder / JOURNAL).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        found["run"].get("part")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise NescioError(f"{path} is damaged ({error!r}); {ANEW}") from None
    return found


def format_of(out: Path) -> tuple[Callable[[Columns, bool], bytes], Join]:
    """How a part is written, given its columns and whether it is the first; and how parts join."""
    if out.is_dir():
        raise NescioError(f"{out} is a folder; name a file in it, as in {out / 'decisions.csv'}")
    if out.suffix == ".parquet":
        package = parquet()
        return lambda columns, _: _parquet(package, columns), _join_parquet
    if out.suffix == ".csv":
        return _csv, _append
    if out.suffix in (".jsonl", ".ndjson"):
        return lambda columns, _: json_lines(columns), _append
    raise NescioError(f"decisions are written as .csv, .jsonl or .parquet, got {str(out)!r}")


def _csv(columns: Columns, first: bool) -> bytes:
    return (csv_header(columns) if first else b"") + csv_lines(columns)


def _append(parts: Sequence[Path], out: IO[bytes]) -> None:
    for path in parts:
        with path.open("rb") as part:
            shutil.copyfileobj(part, out, 1 << 20)


def _parquet(package: ModuleType, columns: Columns) -> bytes:
    import pyarrow as pa

    room = io.BytesIO()
    table = pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    package.write_table(table, room)
    return room.getvalue()


def _join_parquet(parts: Sequence[Path], out: IO[bytes]) -> None:
    package = parquet()
    with package.ParquetWriter(out, package.read_schema(parts[0])) as writer:
        for path in parts:
            writer.write_table(package.read_table(path))
