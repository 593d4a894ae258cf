"""Columns of numbers and words as lines of text, all rows at once: CSV and JSON lines.

A column becomes a matrix of bytes, a row a case, in which zero is no character. Side by side with
the marks between them the matrices are the text; the zeros are then taken out. Numbers have nine
significant digits, as the format %.9g writes them: enough to tell any two float32 apart.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError

Values = NDArray[np.generic]
Letters = NDArray[np.uint8]  # (N, width), 0 is no character

DIGITS = 9
EXACT = 22  # powers of ten up to this one are exact in float64
POWERS = 10.0 ** np.arange(EXACT + 1)
THREE = np.array([list(f"{number:03d}".encode()) for number in range(1000)], np.uint8)


@dataclass(frozen=True)
class Style:
    """What a kind of text demands of values."""

    missing: str
    infinite: str
    quote: Callable[[str], str]
    quoted: str  # characters for which a word is quoted one by one
    always: bool  # whether words are in quotes in any case


def _csv_word(text: str) -> str:
    odd = any(mark in text for mark in '",\r\n')
    return '"' + text.replace('"', '""') + '"' if odd else text


def _json_word(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


CSV = Style("", "inf", _csv_word, '",\r\n', always=False)
JSON = Style("null", "1e999", _json_word, '"\\', always=True)  # 1e999 is read as infinity


def csv_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows of a CSV file, without the header."""
    parts: list[Letters] = []
    for place, values in enumerate(columns.values()):
        parts += [_mark(",", len(values))] if place else []
        parts.append(letters(values, CSV))
    return _text([*parts, _mark("\n", len(parts[0]))])


def csv_header(columns: Mapping[str, Values]) -> bytes:
    """The first line of a CSV file."""
    return (",".join(map(_csv_word, columns)) + "\n").encode()


def json_lines(columns: Mapping[str, Values]) -> bytes:
    """Rows as JSON objects, one a line."""
    parts: list[Letters] = []
    for place, (name, values) in enumerate(columns.items()):
        mark = f"{',' if place else '{'}{_json_word(name)}:"
        parts += [_mark(mark, len(values)), letters(values, JSON)]
    return _text([*parts, _mark("}\n", len(parts[0]))])


def letters(values: Values, style: Style) -> Letters:
    """One column as characters."""
    kind = values.dtype.kind
    if values.ndim != 1 or kind not in "biufU":
        raise NescioError(f"a column must hold numbers or text, (N,), got {values.dtype}")
    if kind == "b":
        return _words(np.array(["false", "true"])[values.astype(np.intp)])
    if kind in "iu":
        return _whole(values.astype(np.int64))
    if kind == "f":
        return _decimal(values.astype(np.float64), style)
    return _quoted(values, style)


def _mark(text: str, rows: int) -> Letters:
    """The same characters in every row."""
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (rows, len(text.encode())))


def _text(parts: list[Letters]) -> bytes:
    return np.concatenate(parts, axis=1).tobytes().translate(None, b"\0")


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
    odd = found < 32 if style.always else np.zeros_like(found, dtype=bool)
    odd = (odd & (found > 0)) | np.isin(found, list(style.quoted.encode()))
    if odd.any():  # each distinct word once
        words, places = np.unique(values, return_inverse=True)
        return _words(np.array([style.quote(str(word)) for word in words])[places])
    if not style.always:
        return found
    mark = _mark('"', len(found))
    return np.concatenate([mark, found, mark], axis=1)


def _whole(values: NDArray[np.int64]) -> Letters:
    """Whole numbers, without leading zeros."""
    size = np.abs(values).astype(np.uint64)  # of the smallest one too
    width = len(str(int(size.max(initial=0))))
    found = np.zeros((len(values), width + 1), np.uint8)
    found[:, 0] = np.where(values < 0, ord("-"), 0)
    found[:, 1:] = _figures(size, width)
    shown = size[:, None] >= np.array([10**k for k in range(width - 1, 0, -1)], np.uint64)
    found[:, 1:-1] *= shown
    return found


def _figures(size: NDArray[np.uint64], width: int) -> Letters:
    """The last `width` figures of whole numbers, three at a time."""
    groups = -(-width // 3)
    found = np.empty((len(size), groups, 3), np.uint8)
    rest = size.astype(np.uint32) if width <= DIGITS else size
    for place in range(groups - 1, -1, -1):
        above = rest // rest.dtype.type(1000)
        found[:, place] = THREE[rest - above * rest.dtype.type(1000)]
        rest = above
    return found.reshape(len(size), 3 * groups)[:, 3 * groups - width :]


def _decimal(values: NDArray[np.float64], style: Style) -> Letters:
    """Numbers as %.9g writes them; values of one power of ten at a time."""
    size = np.abs(values)
    usual = (size >= 1e-13) & (size < 1e21)
    mantissa, power = _scientific(np.where(usual, size, 1.0))
    figures = _figures(mantissa, DIGITS)
    found = np.zeros((len(values), DIGITS + 7), np.uint8)
    found[:, 0] = np.where(np.signbit(values) & ~np.isnan(values), ord("-"), 0)
    counts = np.bincount(power[usual] + EXACT)
    for one in (np.flatnonzero(counts) - EXACT).tolist():
        chosen = np.flatnonzero((power == one) & usual)
        part = _placed(figures[chosen], one)
        found[chosen, 1 : 1 + part.shape[1]] = part
    rare = np.flatnonzero(~usual)
    if len(rare):
        words = _words(np.array(_rare(size[rare], style)))
        found[rare, 1 : 1 + words.shape[1]] = words
    return found


def _scientific(size: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Numbers as a whole mantissa of nine figures and the power of ten of the first."""
    power = np.floor(np.log10(size)).astype(np.int64)
    mantissa = _scaled(size, power)
    power += (mantissa >= 10**DIGITS).astype(np.int64) - (mantissa < 10 ** (DIGITS - 1))
    return _scaled(size, power).astype(np.uint64), power


def _scaled(size: NDArray[np.float64], power: NDArray[np.int64]) -> NDArray[np.float64]:
    shift = DIGITS - 1 - power
    up, down = POWERS[np.clip(shift, 0, EXACT)], POWERS[np.clip(-shift, 0, EXACT)]
    scaled: NDArray[np.float64] = np.rint(size * up / down)
    return scaled


def _placed(figures: Letters, power: int) -> Letters:
    """Figures with their point, and the power of ten where %g writes it; no zeros at the end."""
    zero = ord("0")
    positional = -5 < power < DIGITS
    ahead = power if positional and power >= 0 else 0  # figures before the point, but one
    kept = np.logical_or.accumulate(figures[:, ::-1] != zero, axis=1)[:, ::-1]
    kept[:, : ahead + 1] = True
    figures = figures * kept
    if positional and power < 0:
        start = np.frombuffer(b"0." + b"0" * (-power - 1), np.uint8)
        return np.concatenate([np.broadcast_to(start, (len(figures), len(start))), figures], axis=1)
    point = np.where(kept[:, ahead + 1 : ahead + 2].any(1), ord("."), 0).astype(np.uint8)
    parts = [figures[:, : ahead + 1], point[:, None], figures[:, ahead + 1 :]]
    parts += [] if positional else [_mark(f"e{power:+03d}", len(figures))]
    return np.concatenate(parts, axis=1)


def _rare(size: NDArray[np.float64], style: Style) -> list[str]:
    """Zero, NaN, infinity, and numbers of unusual size; each distinct one once."""
    distinct, places = np.unique(size, return_inverse=True)
    words = [
        style.missing if np.isnan(one) else style.infinite if np.isinf(one) else f"{one:.9g}"
        for one in distinct.tolist()
    ]
    return np.array(words)[places].tolist()  # type: ignore[no-any-return]
