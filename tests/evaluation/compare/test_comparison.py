"""The value: saved, read, joined, beside published numbers."""

import json

import pytest
import torch

from nescio import NescioError
from nescio.evaluation import Comparison
from nescio.evaluation import compare as compare_all
from nescio.evaluation.compare import Absent


def compare(*arguments, **options):
    return compare_all(*arguments, task="confidence", **options)


OUT = torch.tensor([[0.5, 1.0], [-0.25, 2.0], [9.0, 0.0]])


@pytest.fixture
def parts(linear, labeled):
    """The same two predictors and two rows, measured together and apart."""
    predictors = {"a": linear(1.0), "b": linear(0.5)}
    rows = {"out": OUT, "twice": 2 * OUT}
    whole = compare(predictors, labeled, rows, resamples=20)
    cells = [
        compare({name: net}, labeled, {row: given}, resamples=20)
        for name, net in predictors.items()
        for row, given in rows.items()
    ]
    return whole, cells


def test_cells_measured_apart_join_to_the_same_table(parts):
    whole, cells = parts
    joined = Comparison.join(cells)
    assert {*joined.rows} == {*whole.rows}
    assert (joined.sets, joined.about) == (whole.sets, whole.about)
    assert str(joined) == str(whole)


def test_joining_changes_none_of_the_parts(parts):
    _, cells = parts
    before = cells[0].json()
    Comparison.join(cells)
    assert cells[0].json() == before


def test_parts_that_do_not_belong_together_are_refused(parts, linear, labeled):
    whole, _ = parts
    x, y = labeled
    other = compare({"c": linear()}, (x[:30], y[:30]), {"out": OUT}, resamples=20)
    with pytest.raises(NescioError, match="the parts differ in samples: 40 and 30"):
        Comparison.join([whole, other])
    changed = compare({"a": linear(3.0)}, labeled, {"out": OUT}, resamples=20)
    with pytest.raises(NescioError, match="'a' on 'test' is not the same in two parts"):
        Comparison.join([whole, changed])
    with pytest.raises(NescioError, match="the row 'out' is not the same"):
        Comparison.join([whole, compare({"d": linear()}, labeled, {"out": OUT[:2]}, resamples=20)])
    with pytest.raises(NescioError, match="nothing to join"):
        Comparison.join([])


def test_all_four_files_are_written_and_the_json_is_read_again(parts, tmp_path):
    whole, _ = parts
    path = whole.save(tmp_path / "new", "table")
    assert sorted(p.name for p in path.parent.iterdir()) == [
        f"table.{ending}" for ending in ("json", "md", "tex", "txt")
    ]
    assert path == tmp_path / "new" / "table.md"
    path = path.with_suffix(".json")
    assert Comparison.load(path).to_json() == whole.to_json()
    assert Comparison.load(path).rows == whole.rows
    assert json.loads(path.read_text()).items() >= whole.to_json().items()
    texts = {"txt": str(whole), "md": whole.markdown(), "tex": whole.latex()}
    for ending, text in texts.items():
        assert path.with_suffix(f".{ending}").read_text() == text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "has no manifest"),
        ("[]", "not a file of nescio"),
        ('{"kind": "audit"}', "has no manifest"),
    ],
)
def test_another_file_is_refused(content, said, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(NescioError, match=said):
        Comparison.load(path)
    with pytest.raises(NescioError, match="no file"):
        Comparison.load(tmp_path / "absent.json")


def test_published_numbers_come_as_three_or_by_name(parts):
    whole, _ = parts
    found = whole.beside(
        {
            "out": {"a": (0.654, 0.972, 0.121), "b": (0.4, None, 0.1)},
            "test": {"a": {"error": 0.0051, "mean_max_confidence": 0.991}},
        }
    )
    assert published(found) == {
        ("out", "a", "mean_max_confidence"): 0.654,
        ("out", "a", "auroc"): 0.972,
        ("out", "a", "fpr_at_95_tpr"): 0.121,
        ("out", "b", "mean_max_confidence"): 0.4,
        ("out", "b", "fpr_at_95_tpr"): 0.1,
        ("test", "a", "error"): 0.0051,
        ("test", "a", "mean_max_confidence"): 0.991,
    }
    assert [row.value for row in found.rows] == [row.value for row in whole.rows]
    assert published(whole) == {}


def published(found):
    rows = [row for row in found.rows if row.published is not None]
    return {(row.data, row.subject, row.metric): row.published for row in rows}


def test_published_numbers_of_parts_are_joined(linear, labeled):
    first = compare(
        {"a": linear()}, labeled, {"out": OUT}, published={"out": {"a": (0.1,)}}, resamples=0
    )
    second = compare(
        {"b": linear()},
        labeled,
        {"LSUN": Absent("no files")},
        published={"LSUN": {"b": (0.2,)}},
        resamples=0,
    )
    assert published(Comparison.join([first, second])) == {
        ("out", "a", "mean_max_confidence"): 0.1,
        ("LSUN", "b", "mean_max_confidence"): 0.2,
    }


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({"outt": {"a": (0.1,)}}, "unknown row 'outt'; did you mean 'out'"),
        ({"out": {"c": (0.1,)}}, r"unknown predictor 'c'"),
        ({"out": {"a": (0.1, 0.2, 0.3, 0.4)}}, "at most three"),
        ({"out": {"a": (65.4,)}}, r"must be a share in \[0, 1\], got 65.4; divide per cent by 100"),
        ({"out": {"a": {"auc": 0.9}}}, "unknown published number 'auc'"),
    ],
)
def test_published_numbers_that_do_not_fit_are_refused(published, said, parts):
    with pytest.raises(NescioError, match=said):
        parts[0].beside(published)
