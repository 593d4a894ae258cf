"""Columns as the text of a table, CSV or JSON lines, written by whole columns.

Text that a spreadsheet would run, as it begins with =, +, -, @, a tab or a line end, gets an
apostrophe in front in CSV; numbers are written as they are. A column of bytes holds numbers that
are written already, with any number of figures.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError

Values = NDArray[np.generic]
Whole = NDArray[np.uint32] | NDArray[np.uint64]
Letters = NDArray[np.uint8]  # (N, width), 0 is no character

ROWS = 1 << 14  # that are written at a time
FEW = 300  # rows that are sooner written one by one
DIGITS = 9
FORMULA = "=+-@\t\r\n"  # with these a cell begins that spreadsheets run
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
    first: str  # the same for those that a word begins with
    always: bool  # whether words are in quotes in any case


def csv_word(text: str) -> str:
    """A text as a cell of a CSV file: quoted where it must be, harmless to spreadsheets."""
    text = harmless(text)
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text


def harmless(text: str) -> str:
    """A text that no spreadsheet runs."""
    return f"'{text}" if text[:1] in FORMULA and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text
    return True


_json_word = partial(json.dumps, ensure_ascii=False)
CSV = Style("", "inf", csv_word, '",\r\n', FORMULA, always=False)
TIE = 1e-5  # of the last figure: whole columns may be rounded the other way so near to a half
RARE = {"nan": "null", "inf": "1e999", "-inf": "-1e999"}  # as JSON has no words for them
CONTROLS = "".join(map(chr, range(1, 32)))
JSON = Style("null", "1e999", _json_word, '"\\' + CONTROLS, "", always=True)  # 1e999: infinity


def csv_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows of a CSV file, without the header."""
    return _lines(columns, ["", *[","] * (len(columns) - 1)], "\n", CSV)


def csv_header(columns: Mapping[str, Values]) -> bytes:
    """The first line of a CSV file."""
    return (",".join(map(csv_word, columns)) + "\n").encode()


def json_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows as JSON objects, one a line."""
    names = [f"{',' if place else '{'}{_json_word(name)}:" for place, name in enumerate(columns)]
    return _lines(columns, names, "}\n", JSON)


def json_objects(columns: Mapping[str, Values]) -> list[bytes]:
    """The lines of `json_lines` without their ends; few of them in a fraction of the time.

    columns: values by name, each `(N,)`.
    """
    if max(map(len, columns.values())) > FEW or _has_ties(columns):
        return json_lines(columns).splitlines()
    names = (_json_word(name).replace("%", "%%") for name in columns)
    form = "{" + ",".join(f"{name}:%s" for name in names) + "}"
    rows = zip(*map(_json_texts, columns.values()), strict=True)
    return [(form % row).encode() for row in rows]


def _has_ties(columns: Mapping[str, Values]) -> bool:
    """Whether a number is so near to the middle of two texts that only one way of writing counts.

    Text has nine figures; that of whole columns is computed from products, whose rounding may
    decide there.
    """
    floats = [one for one in columns.values() if one.dtype.kind == "f"]
    size = np.abs(np.stack(floats)) if floats else np.zeros((0, 0))
    usual = size[(size >= EDGES[0]) & (size < EDGES[-1] * 10)]
    figures = usual * POWERS[len(POWERS) - np.searchsorted(EDGES, usual, "right")]
    return bool((np.abs(figures - np.floor(figures) - 0.5) < TIE).any())


def _json_texts(values: Values) -> list[str]:
    """A column as JSON."""
    kind, given = values.dtype.kind, values.tolist()
    if kind == "f":
        texts = [f"{value:.9g}" for value in given]
        return [RARE.get(text, text) for text in texts]
    if kind == "b":
        return ["true" if value else "false" for value in given]
    if kind == "S":
        return [value.decode() for value in given]
    if kind == "U":
        words = {word: _json_word(word) for word in set(given)}
        return [words[word] for word in given]
    return list(map(str, given))


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
    if values.ndim != 1 or kind not in "biufUS":
        raise NescioError(f"a column must hold numbers or text, (N,), got {values.dtype}")
    if kind == "S":  # numbers that are written already
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
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
    marks = np.frombuffer(style.first.encode(), np.uint8)
    begins = found.shape[1] > 0 and len(marks) > 0 and np.isin(found[:, 0], marks).any()
    if begins or any(mark in text for mark in style.quoted.encode()):  # each distinct word once
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
