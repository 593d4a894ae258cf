"""A long table that is written part by part, so that a run that was killed goes on.

Beside the table stands a folder with its finished parts and a journal. A part is there as soon as
the journal counts it; what a crash left behind is written over. At the end the parts are joined,
and the journal is the first to go: parts without one are leftovers.
"""

import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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

    def add(self, part: bytes, rows: int, counts: Mapping[str, int]) -> "Table":
        """The table with one more part, as `format_of` writes it, which is then safe."""
        write_atomically(self._part(self.parts), part)
        names = dict.fromkeys((*self.counts, *counts))
        summed = {name: self.counts.get(name, 0) + counts.get(name, 0) for name in names}
        done = replace(self, rows=self.rows + rows, parts=self.parts + 1, counts=summed)
        write_json(done.folder / JOURNAL, done._journal())
        return done

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Join the parts, write the summary, and remove the parts."""
        _, join = format_of(self.out)
        with writing_atomically(self.out) as file:
            join([self._part(number) for number in range(self.parts)], file)
        write_json(summary_path(self.out), {**summary, "run": dict(self.identity)})
        _remove(self.folder)

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}{self.out.suffix}"

    def _journal(self) -> dict[str, Any]:
        names = ("rows", "parts", "counts")
        return {"run": dict(self.identity), **{name: getattr(self, name) for name in names}}


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
        return lambda c, first: (csv_header(c) if first else b"") + csv_lines(c), _append
    if out.suffix in (".jsonl", ".ndjson"):
        return lambda columns, _: json_lines(columns), _append
    raise NescioError(f"decisions are written as .csv, .jsonl or .parquet, got {str(out)!r}")


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


Values = NDArray[np.generic]
Whole = NDArray[np.uint32] | NDArray[np.uint64]
Letters = NDArray[np.uint8]  # (N, width), 0 is no character

ROWS = 1 << 14  # that are written at a time
DIGITS = 9
LOW, HIGH = 1e-4, 10.0**DIGITS - 1  # between them %.9g writes no power of ten
EDGES = 10.0 ** np.arange(-4, DIGITS)
POWERS = 10.0 ** np.arange(DIGITS + 4)  # exact


def _packed(words: Iterable[str]) -> NDArray[np.uint32]:
    """Words of up to four characters, a number each."""
    return np.frombuffer(b"".join(word.encode().ljust(4, b"\0") for word in words), np.uint32)


THREE = [f"{number:03d}" for number in range(1000)]
FIRST = _packed(["", *map(str, range(1, 1000)), *THREE])  # + 1000: after other figures
UNITS = _packed(
    [*map(str, range(1000)), *THREE, *(f"{n}." for n in range(1000)), *(f"{t}." for t in THREE)]
)  # + 2000: before a fraction
AFTER = _packed([*THREE, *(three.rstrip("0") for three in THREE)])  # + 1000: the last figures


@dataclass(frozen=True)
class Style:
    """What a kind of text demands of values."""

    missing: str
    infinite: str
    quote: Callable[[str], str]
    quoted: str  # characters for which a word is quoted one by one
    always: bool  # whether words are in quotes in any case


def _csv_word(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text


_json_word = partial(json.dumps, ensure_ascii=False)
CSV = Style("", "inf", _csv_word, '",\r\n', always=False)
CONTROLS = "".join(map(chr, range(1, 32)))
JSON = Style("null", "1e999", _json_word, '"\\' + CONTROLS, always=True)  # 1e999: infinity


def csv_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows of a CSV file, without the header."""
    return _lines(columns, ["", *[","] * (len(columns) - 1)], "\n", CSV)


def csv_header(columns: Mapping[str, Values]) -> bytes:
    """The first line of a CSV file."""
    return (",".join(map(_csv_word, columns)) + "\n").encode()


def json_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows as JSON objects, one a line."""
    names = [f"{',' if place else '{'}{_json_word(name)}:" for place, name in enumerate(columns)]
    return _lines(columns, names, "}\n", JSON)


def _lines(columns: Mapping[str, Values], marks: list[str], end: str, style: Style) -> bytes:
    """Each column after its mark, some rows at a time: they stay in the cache."""
    found = []
    for start in range(0, max(map(len, columns.values())), ROWS):
        parts: list[Letters] = []
        for mark, values in zip(marks, columns.values(), strict=True):
            column = letters(values[start : start + ROWS], style)
            parts += [_mark(mark, len(column)), column]
        text = np.concatenate([*parts, _mark(end, len(parts[0]))], axis=1)
        found.append(text.tobytes().translate(None, b"\0"))
    return b"".join(found)


def letters(values: Values, style: Style) -> Letters:
    """One column as characters."""
    kind = values.dtype.kind
    if values.ndim != 1 or kind not in "biufU":
        raise NescioError(f"a column must hold numbers or text, (N,), got {values.dtype}")
    if kind == "b":
        return _words(np.array(["false", "true"])[values.astype(np.intp)])
    if kind in "iu":  # without leading zeros
        whole = values.astype(np.int64)
        return _joined([*_signs(whole < 0), *_figures(np.abs(whole).astype(np.uint64))])
    if kind == "f":
        return _decimal(values.astype(np.float64), style)
    return _quoted(values, style)


def _mark(text: str, rows: int) -> Letters:
    """The same characters in every row."""
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (rows, len(text.encode())))


def _words(values: Values) -> Letters:
    """Text as bytes of UTF-8."""
    if not values.dtype.itemsize:
        return np.zeros((len(values), 0), np.uint8)
    codes = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    if codes.max(initial=0) < 128:
        return codes.astype(np.uint8)
    encoded = np.char.encode(values.astype(str), "utf-8")
    return encoded.view(np.uint8).reshape(len(values), -1)


def _quoted(values: Values, style: Style) -> Letters:
    found = _words(values)
    text = found.tobytes()
    if any(mark in text for mark in style.quoted.encode()):  # each distinct word once
        words, places = np.unique(values, return_inverse=True)
        return _words(np.array([style.quote(str(word)) for word in words])[places])
    if not style.always:
        return found
    mark = _mark('"', len(found))
    return np.concatenate([mark, found, mark], axis=1)


def _decimal(values: NDArray[np.float64], style: Style) -> Letters:
    """Numbers as %.9g writes them."""
    size = np.abs(values)
    usual = (size >= LOW) & (size < HIGH)
    whole, fraction = _split(size if usual.all() else np.where(usual, size, 1.0))
    negative = np.signbit(values) & ~np.isnan(values)
    found = _joined([*_signs(negative), *_figures(whole, fraction > 0), *_fraction(fraction)])
    rare = np.flatnonzero(~usual)
    if not len(rare):
        return found
    words = _words(_rare(np.abs(values[rare]), style))
    sign = np.where(negative[rare], ord("-"), 0).astype(np.uint8)[:, None]
    words = np.concatenate([sign, words], axis=1)
    found = np.pad(found, ((0, 0), (0, max(0, words.shape[1] - found.shape[1]))))
    found[rare] = 0
    found[rare, : words.shape[1]] = words
    return found


def _split(size: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Numbers rounded to nine figures: what is before the point, and twelve figures after it."""
    after = len(POWERS) - np.searchsorted(EDGES, size, "right")  # figures after the point
    scale = POWERS[after]
    figures = np.rint(size * scale)
    whole = np.floor(figures / scale)
    fraction = (figures - whole * scale) * POWERS[len(POWERS) - 1 - after]
    return whole.astype(np.uint32), fraction.astype(np.uint64)


def _figures(size: Whole, point: NDArray[np.bool_] | None = None) -> list[NDArray[np.uint32]]:
    """Whole numbers, three digits per column, without leading zeros; a point where one follows."""
    most = int(size.max(initial=0))
    rest = size.astype(np.uint32) if most < 1 << 32 else size
    found: list[NDArray[np.uint32]] = []
    for place in range(-(-len(str(most)) // 3)):
        above = rest // rest.dtype.type(1000)
        own = (rest - above * rest.dtype.type(1000)).astype(np.intp)
        if place * 3 + 3 < len(str(most)):
            own += 1000 * (above > 0)
        if point is not None and not place:
            own += 2000 * point
        found.insert(0, (FIRST if place else UNITS)[own])
        rest = above
    return found


def _fraction(twelve: NDArray[np.uint64]) -> list[NDArray[np.uint32]]:
    """Twelve figures after the point, three a column, without zeros at the end."""
    high = (twelve // np.uint64(10**6)).astype(np.uint32)
    low = (twelve - high * np.uint64(10**6)).astype(np.uint32)
    found: list[NDArray[np.uint32]] = []
    ends = np.ones(len(twelve), bool)  # whether only zeros follow
    for half in (low, high):
        above = half // np.uint32(1000)
        for own in (half - above * np.uint32(1000), above):
            found.insert(0, AFTER[own + np.uint32(1000) * ends])
            ends = ends & (own == 0)
    return found if low.any() else found[:2]


def _signs(negative: NDArray[np.bool_]) -> list[NDArray[np.uint32]]:
    return [_packed(["", "-"])[negative.astype(np.intp)]] if negative.any() else []


def _joined(columns: list[NDArray[np.uint32]]) -> Letters:
    """Columns of packed characters side by side."""
    return np.stack(columns, axis=1).view(np.uint8)


def _rare(size: NDArray[np.float64], style: Style) -> Values:
    """Zero, NaN, infinity, and numbers of unusual size; each distinct one once."""
    distinct, places = np.unique(size, return_inverse=True)
    words = [
        style.missing if np.isnan(one) else style.infinite if np.isinf(one) else f"{one:.9g}"
        for one in distinct.tolist()
    ]
    return np.array(words)[places]
