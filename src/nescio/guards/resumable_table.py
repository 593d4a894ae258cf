"""A long table that is written part by part, so that a run that was killed goes on.

Beside the table stands a folder with its finished parts and a journal. A part is there as soon as
the journal counts it; what a crash left behind is written over. At the end the parts are joined,
and the journal is the first to go: parts without one are leftovers.
"""

import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import (
    DamagedError,
    NescioError,
    check_same_run,
    digest,
    file_digest,
    load_manifest,
    make_folder,
    save_manifest,
    write_atomically,
    writing_atomically,
)
from nescio.data.readers.parquet import parquet
from nescio.guards.table_text import csv_header, csv_lines, json_lines

Columns = Mapping[str, NDArray[Any]]
Join = Callable[[Iterable[bytes], IO[bytes]], None]


@dataclass(frozen=True)
class Table:
    """A table under way: what it is made of, and how far it is."""

    out: Path
    identity: Mapping[str, Any]  # JSON: inputs, guard, size of a part
    rows: int = 0  # done
    digests: tuple[str, ...] = ()  # of the parts
    counts: Mapping[str, int] = field(default_factory=dict)  # of what was written, summed

    @property
    def folder(self) -> Path:
        """Where the parts are until all is done."""
        return self.out.with_name(f"{self.out.name}.parts")

    def add(self, part: bytes, rows: int, counts: Mapping[str, int]) -> "Table":
        """The table with one more part, as `format_of` writes it, which is then safe."""
        write_atomically(self._part(len(self.digests)), part)
        names = dict.fromkeys((*self.counts, *counts))
        summed = {name: self.counts.get(name, 0) + counts.get(name, 0) for name in names}
        digests = (*self.digests, digest(part))
        done = replace(self, rows=self.rows + rows, digests=digests, counts=summed)
        done.write_journal()
        return done

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Join the parts, write the summary, and remove the parts."""
        _, join = format_of(self.out)
        with writing_atomically(self.out) as file:
            join(self._contents(), file)
        about = {"run": dict(self.identity), "table": file_digest(self.out)}
        save_manifest(summary_path(self.out), {"kind": SUMMARY, **summary, **about})
        _remove(self.folder)

    def _contents(self) -> Iterator[bytes]:
        """The parts in their order, each as it was written."""
        for number, known in enumerate(self.digests):
            path = self._part(number)
            if not path.exists() or digest(content := path.read_bytes()) != known:
                what = "damaged" if path.exists() else "missing"
                raise DamagedError(f"{path} is {what}, a part of a stopped run; {ANEW}")
            yield content

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}{self.out.suffix}"

    def write_journal(self) -> None:
        """Write down which parts there are; only these count."""
        about = {"rows": self.rows, "digests": list(self.digests), "counts": dict(self.counts)}
        run = {"kind": STOPPED, "run": dict(self.identity), **about}
        save_manifest(self.folder / JOURNAL, run)


JOURNAL = "journal.json"
STOPPED, SUMMARY = "stopped run", "summary of decisions"  # kinds of files
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
        there = _read(journal, STOPPED)
        known = {**identity, "part": there["run"].get("part")}  # parts stay as large as they were
        check_same_run(fresh.folder, there["run"], known, ANEW)
        table = Table(out, known, there["rows"], tuple(there["digests"]), there["counts"])
        for _ in table._contents():  # damage is said before the work, not after it
            pass
        return table
    _remove(fresh.folder)
    make_folder(fresh.folder)
    fresh.write_journal()
    return fresh


def rows_done(out: Path) -> int:
    """Rows that a stopped run has written to `out`; 0 without one."""
    if out.is_dir():
        return 0
    journal = Table(out, {}).folder / JOURNAL
    return int(_read(journal, STOPPED)["rows"]) if journal.exists() else 0


def finished(out: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The summary of a table that is complete; None where it is still to be made.

    A table of other inputs or of another guard is refused, and one that was changed since.
    """
    folder = Table(out, {}).folder
    if not out.exists() or (folder / JOURNAL).exists():
        return None
    if not summary_path(out).exists():
        raise NescioError(f"{out} is there already; choose another name, or {ANEW}")
    there = _read(summary_path(out), SUMMARY)
    known = {**identity, "part": there["run"].get("part")}
    check_same_run(out, there["run"], json.loads(json.dumps(known)), ANEW)
    if file_digest(out) != there["table"]:
        raise DamagedError(f"{out} is not what was written: it is damaged, or was changed; {ANEW}")
    _remove(folder)
    return there


def _remove(folder: Path) -> None:
    """Remove parts; the journal first, as it must not count what is gone."""
    (folder / JOURNAL).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)


def _read(path: Path, kind: str) -> dict[str, Any]:
    try:
        return load_manifest(path, kind)
    except DamagedError as error:
        raise DamagedError(f"{error}; {ANEW}") from None


def format_of(out: Path) -> tuple[Callable[[Columns, bool], bytes], Join]:
    """How a part of the table `out` is written, from columns and whether it is first, and joins."""
    if out.is_dir():
        raise NescioError(f"{out} is a folder; name a file in it, as in {out / 'decisions.csv'}")
    if out.suffix == ".parquet":
        package = parquet()
        return lambda columns, _: _parquet(package, columns), _join_parquet
    if out.suffix == ".csv":
        return lambda c, first: (csv_header(c) if first else b"") + csv_lines(c), _append
    if out.suffix in (".jsonl", ".ndjson"):
        return lambda columns, _: json_lines(columns), _append
    raise NescioError(f"decisions are written as .csv, .jsonl or .parquet, got {str(out)!r}")


def _append(parts: Iterable[bytes], out: IO[bytes]) -> None:
    for part in parts:
        out.write(part)


def _parquet(package: ModuleType, columns: Columns) -> bytes:
    import pyarrow as pa

    room = io.BytesIO()
    table = pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    package.write_table(table, room)
    return room.getvalue()


def _join_parquet(parts: Iterable[bytes], out: IO[bytes]) -> None:
    package = parquet()
    with ExitStack() as stack:
        writer = None
        for part in parts:
            table = package.read_table(io.BytesIO(part))
            if writer is None:
                writer = stack.enter_context(package.ParquetWriter(out, table.schema))
            writer.write_table(table)
