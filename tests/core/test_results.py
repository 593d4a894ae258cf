"""Results: selection, values, tables in all media, files, joins."""

import math
import sys
from dataclasses import dataclass

import pytest

from nescio import NescioError, Results
from nescio.core import files
from nescio.core.results import DataSet, Row, from_json, to_json


def row(subject, data, metric, value, **more):
    return Row(subject=subject, data=data, metric=metric, value=value, **more)


@pytest.fixture
def results():
    rows = (
        row("knn", "letters", "auroc", 0.91, low=0.9, high=0.92, note="best"),
        row("knn", "letters", "aupr", 0.5),
        row("knn", "noise", "auroc", 0.99),
        row("energy", "letters", "auroc", 0.8),
        row("energy", "noise", "auroc", None),
    )
    sets = (DataSet(name="letters", kind="near", samples=10), DataSet(name="noise", kind="noise"))
    return Results(rows, sets, {"what": "a test", "notes": ["One & only."]})


def test_values_and_selections(results):
    assert results.value("knn", "letters", "auroc") == 0.91
    assert results.value(metric="aupr") == 0.5
    assert results.row("energy", "noise", "auroc").value is None
    assert results.row("energy", "noise", "aupr") is None
    assert results.select(subject="knn").names("data") == ["letters", "noise"]
    assert results.names("metric") == ["auroc", "aupr"]
    with pytest.raises(NescioError, match="2 rows match; name one data"):
        results.value("knn", metric="auroc")
    with pytest.raises(NescioError, match="unknown subject 'kn'; did you mean 'knn'"):
        results.select("kn")
    with pytest.raises(NescioError, match="0 rows match"):
        results.value("energy", "noise", "aupr")


def test_one_table_in_all_media(results):
    table = results.table("subject", "data", metric="auroc")
    assert list(table.head) == ["letters", "noise"]
    assert [label for label, _ in table.rows] == ["knn", "energy"]
    some = results.select(metric="auroc")
    lines = str(some).splitlines()
    assert lines[0].split() == ["subject", "letters", "noise"]
    assert lines[2].split() == ["knn", "*0.910", "(0.900-0.920)", "0.990"]
    assert lines[3].split() == ["energy", "0.800", "-"]
    assert "| knn | **0.910** (0.900–0.920) | 0.990 |" in some.markdown()
    assert r"knn & \textbf{0.910} {\scriptsize(0.900--0.920)} & 0.990 \\" in some.latex()
    assert r"knn & \textbf{0.910} & 0.990 \\" in some.latex(intervals=False)
    ends = '<span class="ends">(0.900 to 0.920)</span>'
    assert f"<td>*0.910 {ends}</td><td>0.990</td>" in some._repr_html_()
    assert "<p>One &amp; only.</p>" in some._repr_html_()
    assert "letters, knn" in str(results)  # both vary: metrics are the columns


def test_a_frame_has_one_line_per_row(results, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = results.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.shape == (5, 8)
    assert frame.query("metric == 'aupr'")["value"].tolist() == [0.5]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NescioError, match="pip install pandas"):
        results.to_frame()


def test_files_are_read_again(results, tmp_path):
    path = results.save(tmp_path / "new" / "table")
    assert {one.name for one in path.parent.iterdir()} == {
        f"table.{ending}" for ending in ("json", "txt", "md", "tex")
    }
    assert Results.load(path) == results
    path.write_text('{"kind": "audit"}')
    with pytest.raises(NescioError, match="has no manifest"):
        Results.load(path)
    files.save_manifest(path, {"kind": "results", "rows": [{"subject": "a"}]})
    with pytest.raises(NescioError, match="is not what `save` wrote"):
        Results.load(path)
    with pytest.raises(NescioError, match="no file"):
        Results.load(tmp_path / "none.json")


def test_parts_are_joined_where_they_agree(results):
    parts = [Results(results.rows[:3], results.sets), Results(results.rows[2:], results.sets)]
    assert Results.join(parts).rows == results.rows
    other = Results((row("knn", "noise", "auroc", 0.5),))
    with pytest.raises(NescioError, match="'knn' on 'noise' is not the same in two parts"):
        Results.join([results, other])
    with pytest.raises(NescioError, match="nothing to join"):
        Results.join([])


@dataclass(frozen=True)
class Inner:
    number: float
    maybe: float | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    by_name: dict[str, Inner]
    many: tuple[Inner, ...]
    none: float | None
    some: Inner | None = None


def test_dataclasses_survive_json():
    value = Outer(Inner(1.5), {"a": Inner(2.0, 3.0)}, (Inner(4.0),), None)
    written = to_json(value)
    assert written == {
        "inner": {"number": 1.5},
        "by_name": {"a": {"number": 2.0, "maybe": 3.0}},
        "many": [{"number": 4.0}],
        "none": None,
    }
    assert from_json(Outer, written) == value
    assert to_json(Inner(math.nan)) == {"number": None}


@dataclass(frozen=True, kw_only=True)
class Mixed:
    shape: tuple[int, ...] | dict[str, tuple[int, ...]]
    pair: tuple[str, float] = ("", 0.0)
    count: int = 0
    known: float | None = None


@pytest.mark.parametrize("shape", [(3, 4), {"a": (3,), "b": (4, 5)}])
def test_a_field_of_two_kinds_is_read_back(shape):
    value = Mixed(shape=shape, pair=("a", 1.5))
    assert from_json(Mixed, to_json(value)) == value


@pytest.mark.parametrize(
    "wrong", [{"shape": "ab"}, {"shape": ["a"]}, {"pair": ["a"]}, {"count": "x"}, {"known": [1]}]
)
def test_a_value_of_another_kind_is_refused(wrong):
    with pytest.raises(NescioError, match="is not what `save` wrote"):
        from_json(Mixed, {"shape": [1], **wrong})
