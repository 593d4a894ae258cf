"""Answers are the bytes that `nescio score` writes; the log gets the same values."""

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from nescio.guards import Decisions, RegressionDecisions, table_text
from nescio.guards.table_text import json_lines
from nescio.serving import decision_bytes as answers
from nescio.serving.decision_bytes import arrow_stream, entry_columns, json_rows
from nescio.serving.log_records import Entry

ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-5, 9.99999999996e-5, 1e-4, 999999999.6, 1e9,
       1e308, 0.5, 1.0, -2.0, 1 / 3, 0.1234567895, 1.000000005, 123456789.5, 2.5e-4]  # fmt: skip
NAMES = ("no", 'say "yes"', "größer\n")


def decisions(count, *, names=None, sets=True):
    draw = np.random.default_rng(count)

    def numbers():
        found = draw.normal(size=count) * 10.0 ** draw.integers(-9, 12, count)
        found[draw.random(count) < 0.2] = draw.choice(ODD)
        found[: len(ODD)] = draw.permutation(ODD)[:count]
        return torch.from_numpy(found)

    columns = ("probability", "p_value", "score", "failure_score")
    return Decisions(
        decision=torch.from_numpy(draw.integers(0, 3, count)),
        label=torch.from_numpy(draw.integers(-1, 3, count)),
        rule=torch.from_numpy(draw.integers(0, 9, count)),
        in_range=torch.from_numpy(draw.random(count) < 0.5),
        sets=torch.from_numpy(draw.random((count, 3)) < 0.5) if sets else None,
        names=names,
        **{name: numbers() for name in columns},
    )


def intervals(count, names=None):
    one, draw = decisions(count), torch.Generator().manual_seed(count)
    three = {n: torch.randn(count, 2, generator=draw).double() for n in ("mean", "low", "high")}
    three["high"][0] = torch.inf
    same = {
        name: getattr(one, name) for name in ("decision", "p_value", "score", "rule", "in_range")
    }
    return RegressionDecisions(**three, **same, names=names)


CASES = [
    decisions(1),
    decisions(2, names=NAMES),
    decisions(64, names=NAMES, sets=False),
    decisions(200),
    decisions(table_text.FEW + 1, names=NAMES),
    intervals(5),
    intervals(70, names=("price, %s", 'a"b')),
]


@pytest.mark.parametrize("found", CASES, ids=repr)
def test_rows_are_the_lines_of_a_file(found):
    wanted = json_lines(found.columns()).splitlines()
    assert json_rows(found) == wanted
    assert [json_rows(found[row])[0] for row in range(len(found))] == wanted


def test_numbers_at_a_tie_are_written_as_in_files():
    """0.1234567895 and others whose tenth figure is 5: a product decides, as for whole columns."""
    draw = np.random.default_rng(0)
    ties = (draw.integers(10**8, 10**9, 4000) + 0.5) / 10.0 ** draw.integers(0, 13, 4000)
    found = decisions(len(ties))
    found = replace(found, score=torch.from_numpy(np.nextafter(ties, draw.choice([0, 1, 2], 4000))))
    wanted = json_lines(found.columns()).splitlines()
    parts = (found[start : start + 50] for start in range(0, len(ties), 50))
    assert [line for part in parts for line in json_rows(part)] == wanted


def test_random_numbers_are_written_as_in_files():
    for seed in range(60):
        found = decisions(250 - seed)
        assert json_rows(found) == json_lines(found.columns()).splitlines()


@pytest.mark.parametrize("found", CASES, ids=repr)
def test_the_log_gets_what_was_answered(found):
    columns = entry_columns(found)
    rows = [json.loads(line) for line in json_rows(found)]
    assert {*columns} <= {*Entry.__dataclass_fields__}
    for place, row in enumerate(rows):
        own = {name: column[place] for name, column in columns.items()}
        assert own["decision"] == row["decision"]
        assert own["rule"] == row["rule"]
        assert own["in_range"] is row["in_range"]
        assert own["label"] == str(row.get("label", ""))
        assert own["set"] == row.get("set")
        for name in answers.NUMBERS:
            _same(own[name], row.get(name))
        more = {} if own["more"] is None else json.loads(own["more"])
        assert {*more} == {*row} - {*answers.OWN}
        for name, value in more.items():
            _same(value, row[name])


def _same(logged, answered):
    if answered is None or not np.isfinite(answered):
        assert logged is None
    else:
        assert logged == pytest.approx(answered, rel=1e-8)


@pytest.mark.parametrize("found", CASES, ids=repr)
def test_arrow_holds_the_columns(found):
    table = pa.ipc.open_stream(io.BytesIO(arrow_stream(found.columns()))).read_all()
    for name, column in found.columns().items():
        np.testing.assert_array_equal(table.column(name).to_numpy(), column)
