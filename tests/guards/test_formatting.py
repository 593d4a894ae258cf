"""Text of whole columns against Python's own formatting, csv and json."""

import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.guards.table_text import csv_header, csv_lines, json_lines, json_objects

TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6)


def lines(**columns: object) -> list[list[str]]:
    text = csv_lines({name: np.asarray(values) for name, values in columns.items()}).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_numbers_are_as_the_nine_digit_format_writes_them(values):
    for value, (text, _) in zip(values, lines(a=values, b=values), strict=True):
        if math.isnan(value):
            assert text == ""
        else:
            expected = f"{value:.9g}"
            assert math.isclose(float(text), float(expected), rel_tol=1.001e-9 * (text != expected))
            assert math.isclose(float(text), value, rel_tol=5.001e-9)


def test_many_numbers_are_to_the_letter_as_printed():
    draw = np.random.default_rng(0)
    values = np.concatenate(
        [
            draw.uniform(size=5000),
            -draw.lognormal(0, 12, 5000),
            10.0 ** np.arange(-20, 25),
            10.0 ** np.arange(-12, 20) * (1 - 1e-15),
            [0.0, -0.0, 1.0, 0.5, 99999.9999, 999999999.5, 0.0001, 0.00009999999999],
            np.arange(1, 1000) / 1000,
        ]
    )
    assert [row[0] for row in lines(a=values)] == [f"{value:.9g}" for value in values]


def test_single_precision_comes_back():
    values = np.random.default_rng(1).normal(size=20_000).astype(np.float32) ** 9
    found = np.array([float(row[0]) for row in lines(a=values)], np.float32)
    np.testing.assert_array_equal(found, values)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=9))
def test_whole_numbers(values):
    assert [int(row[0]) for row in lines(a=np.array(values, np.int64))] == values
    assert csv_lines({"a": np.array(values)}) == "".join(f"{v}\n" for v in values).encode()


def harmless(text):
    """What a spreadsheet does not run."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text[:1] in tuple("=+-@\t\r\n") else text
    return text


def test_cells_that_spreadsheets_would_run_are_text():
    words = ["=1+2", "+1 a", "-2+3", "@SUM(A1)", "\tx", "-5", "+1e3", "a=b", "", "=HYPERLINK(1,2)"]
    text = csv_lines({"a": np.array(words), "b": np.array([-1.0] * len(words))}).decode()
    read = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    assert read == [
        "'=1+2", "'+1 a", "'-2+3", "'@SUM(A1)", "'\tx", "-5", "+1e3", "a=b", "", "'=HYPERLINK(1,2)"
    ]  # fmt: skip
    assert text.endswith(",-1\n")
    assert csv_header({"=cmd": np.zeros(1)}) == b"'=cmd\n"
    assert json.loads(json_lines({"a": np.array(["=1"])})) == {"a": "=1"}


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(TEXTS, st.booleans(), TEXTS), min_size=1, max_size=6))
def test_words_come_back_from_both_formats(rows):
    a, b, c = (list(part) for part in zip(*rows, strict=True))
    columns = {"a": np.array(a, str), "b, c": np.array(b), "c": np.array(c, str)}
    read = list(csv.reader(io.StringIO(csv_lines(columns).decode(), newline="")))
    safe = [[harmless(x), str(y).lower(), harmless(z)] for x, y, z in zip(a, b, c, strict=True)]
    assert read == safe
    text = json_lines(columns).decode()
    objects = [json.loads(line) for line in text.split("\n")[:-1]]
    assert objects == [{"a": x, "b, c": y, "c": z} for x, y, z in zip(a, b, c, strict=True)]
    assert csv_header(columns).decode() == 'a,"b, c",c\n'


def test_words_of_csv_have_quotes_only_where_they_must():
    words = np.array(["plain", "two words", "a,b", 'a"b'])
    assert csv_lines({"c": words}) == b'plain\ntwo words\n"a,b"\n"a""b"\n'
    assert csv_lines({"c": words[:2]}) == b"plain\ntwo words\n"


def test_json_keeps_infinity_and_says_null():
    text = json_lines({"a": np.array([np.nan, np.inf, -np.inf, 1.5, -0.25])}).decode()
    values = [json.loads(line)["a"] for line in text.splitlines()]
    assert values == [None, math.inf, -math.inf, 1.5, -0.25]


def test_bytes_are_numbers_that_are_written_already():
    columns = {"a": np.array([b"1763424000.123", b"-1.5"]), "b": np.arange(2)}
    assert csv_lines(columns) == b"1763424000.123,0\n-1.5,1\n"
    assert json_lines(columns) == b'{"a":1763424000.123,"b":0}\n{"a":-1.5,"b":1}\n'
    assert json_objects(columns) == json_lines(columns).splitlines()


def test_other_columns_are_refused():
    for odd in (np.zeros((2, 2)), np.array([1j]), np.array([object()])):
        with pytest.raises(NescioError, match="numbers or text"):
            csv_lines({"a": odd})
