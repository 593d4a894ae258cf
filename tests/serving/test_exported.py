"""Decisions as a table, which other programs read back as they were."""

import csv
import json
import math

import pytest

from nescio.core import NescioError
from nescio.serving import export_decisions, exported
from nescio.serving.exported import ORDER


@pytest.fixture
def filled(log, entry):
    log.write([entry(number, score=number / 8, label=f"=a, {number}") for number in range(25)])
    log.write([entry(30, decision="ood", score=None, set="a b", more='{"low": 1}', picked=True)])
    return log


def test_csv(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "ROWS", 7)
    assert export_decisions(filled, tmp_path / "out.csv") == 26
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ORDER
    assert [row["id"] for row in rows] == [one.id for one in filled.decisions()]
    assert [float(row["score"]) for row in rows[:-1]] == [number / 8 for number in range(25)]
    assert rows[3]["label"] == "'=a, 3"  # which a spreadsheet would run
    assert (rows[-1]["score"], rows[-1]["set"], rows[-1]["more"]) == ("", "a b", '{"low": 1}')


def test_json_lines_with_filters(filled, tmp_path):
    assert export_decisions(filled, tmp_path / "out.jsonl", decision="ood") == 1
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    (one,) = filled.decisions(decision="ood")
    assert list(row) == ORDER
    assert row["seq"] == one.seq
    assert row["score"] is None
    assert row["picked"] is True
    assert json.loads(row["more"]) == {"low": 1}


def test_parquet(filled, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export_decisions(filled, tmp_path / "out.parquet") == 26
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    every = list(filled.decisions())
    assert [row["time"] for row in table] == [one.time for one in every]
    assert math.isnan(table[-1]["score"])


def test_times_have_milliseconds(log, entry, tmp_path):
    log.write([entry(0, time=1_763_424_000.1234), entry(1, time=-1.5)])
    times = []
    for kind in ("csv", "jsonl"):
        export_decisions(log, tmp_path / f"out.{kind}")
    with open(tmp_path / "out.csv", newline="") as file:
        times.append([row["time"] for row in csv.DictReader(file)])
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    times.append([f"{json.loads(line)['time']:.3f}" for line in lines])
    assert times == [["1763424000.123", "-1.500"]] * 2


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_empty_log(log, tmp_path, kind):
    out = tmp_path / f"out.{kind}"
    assert export_decisions(log, out) == 0
    assert out.exists()
    if kind == "csv":
        assert out.read_text() == ",".join(ORDER) + "\n"


def test_wrong_names(filled, tmp_path):
    with pytest.raises(NescioError, match="csv"):
        export_decisions(filled, tmp_path / "out.xls")
    with pytest.raises(NescioError, match="folder"):
        export_decisions(filled, tmp_path)
