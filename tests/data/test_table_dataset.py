"""A table as a data set: targets, what is learned from the training rows alone, and errors."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import learn_columns, load, read_table


def write(path, target, count=60):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.3f},{rng.choice(['x', 'y'])},{target(i)}" for i in range(count)]
    path.write_text("\n".join(["a,b,t", *lines]))
    return str(path)


@pytest.mark.parametrize(
    ("target", "classes", "dtype"),
    [
        (lambda i: ["no", "yes"][i % 2], 2, torch.int64),
        (lambda i: i % 3, 3, torch.int64),
        (lambda i: i % 3 + 0.5, None, torch.float32),
        (lambda i: i, None, torch.float32),
    ],
)
def test_what_the_targets_are(tmp_path, target, classes, dtype):
    found = load(write(tmp_path / "t.csv", target), target="t")
    assert found.classes == classes
    assert found.train[1].dtype == dtype
    assert [len(part[0]) for part in (found.train, found.validation, found.test)] == [48, 6, 6]
    counts = load(write(tmp_path / "t.csv", lambda i: i % 3), target="t", regression=True)
    assert counts.classes is None


def test_the_encoding_is_learned_from_the_training_rows(tmp_path):
    path = write(tmp_path / "t.csv", lambda i: i % 2)
    found = load(path, target="t")
    x = found.columns.encode(read_table(path)).x
    a = found.train[0][:, 0]
    assert abs(float(a.mean())) < 1e-6
    assert abs(float(x[:, 0].mean())) > 1e-4
    again = load(path, encoding=found.columns)
    assert torch.equal(again.test[0], found.test[0])


def test_columns_are_chosen_by_name(tmp_path):
    path = write(tmp_path / "t.csv", lambda i: i % 2)
    assert load(path, target="t", without="b").columns.names == ("a",)
    kept = load(path, target="t", keep="b").columns
    assert (kept.names, kept.ids) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (lambda i: i % 2, {}, "say which column .* its columns: a, b, t"),
        (lambda i: i % 2, {"target": "T"}, "small and capital letters differ, did you mean 't'"),
        (lambda i: "" if i == 4 else i % 2, {"target": "t"}, r"empty in 1 rows \(first in row 4"),
        (lambda i: f"text {i}", {"target": "t"}, "60 different texts"),
        (
            lambda i: "abc" if i == 4 else i / 7,
            {"target": "t"},
            r"'abc' in row 4 \(line 6.*numbers",
        ),
        (lambda i: "ab"[i % 2], {"target": "t", "class_names": ["a"]}, "holds b, expected one of"),
    ],
)
def test_what_is_refused(tmp_path, target, options, message):
    with pytest.raises(NescioError, match=message):
        load(write(tmp_path / "t.csv", target), **options)
    with pytest.raises(NescioError, match="no file .*absent.csv; check the name"):
        load(str(tmp_path / "absent.csv"), target="t")


def test_ids_are_found_and_rare_levels_are_unseen():
    rng = np.random.default_rng(0)
    table = {
        "row": np.arange(300),
        "visit_id": rng.permutation(10**6)[:300],
        "age": rng.normal(size=300),
    }
    table["code"] = [f"c{i % 7}" if i < 280 else f"rare{i}" for i in range(300)]
    with pytest.warns(UserWarning, match="left out as ids.*row, visit_id"):
        columns = learn_columns(table, most=7)
    assert columns.ids == ("row", "visit_id")
    assert columns.names == ("age", "code")
    assert columns.columns[1].levels == tuple(f"c{i}" for i in range(7))
    assert int(columns.encode(read_table(table)).unseen.sum()) == 20
    assert "code: 20 rarer levels are encoded as unseen" in columns.notes
    named = learn_columns(table, {"row": "continuous"}, ids=["visit_id"], most=7)
    assert named.names == ("row", "age", "code")
