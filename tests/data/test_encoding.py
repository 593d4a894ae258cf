"""Kinds of columns: what is proposed, what is encoded, what is flagged."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nescio
from nescio.core import NescioError, save_manifest
from nescio.data import Columns, learn_columns, read_table
from nescio.data.encoding import Column

AGES = [20.0, 30.0, 40.0, 50.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, None]
TRAIN = read_table(
    {
        "age": AGES,
        "grade": [1, 2, 3] * 4,
        "sex": ["F", "M"] * 6,
        "smokes": [0, 1, None] * 4,
    }
)


def test_kinds_are_proposed_and_said():
    columns = learn_columns(TRAIN)
    assert [c.kind for c in columns.columns] == [
        "continuous", "ordinal", "categorical", "categorical",
    ]  # fmt: skip
    assert all(c.proposed for c in columns.columns)
    assert columns.notes[0] == "age: continuous, of 11 different values"
    given = learn_columns(TRAIN, {"age": "continuous", "grade": "categorical"})
    assert given.columns[1].kind == "categorical"
    assert [c.proposed for c in given.columns] == [False, False, True, True]
    assert len(given.notes) == 2


def test_an_encoded_table_by_hand():
    columns = learn_columns(TRAIN)
    found = columns.encode(
        read_table({"smokes": [1, None, 7], "sex": ["M", "?", "X"], "grade": [3, None, 9],
                    "age": [60.0, None, 20.0], "more": [1, 2, 3]})
    )  # fmt: skip
    ages = np.array(AGES[:-1])
    z = (np.array([60.0, 0.0, 20.0]) - ages.mean()) / ages.std()
    places = (2 - 1) / np.std([0, 1, 2])
    expected = [
        [z[0], 0, places, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0],
        [z[2], 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
    ]
    torch.testing.assert_close(found.x, torch.tensor(expected, dtype=torch.float32))
    assert found.missing.tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert found.unseen.tolist() == [[False] * 4, [False] * 4, [False, True, True, True]]
    assert columns.features == [
        "age", "age: missing", "grade", "grade: missing", "grade: unseen",
        "sex=F", "sex=M", "sex: missing", "sex: unseen",
        "smokes=0", "smokes=1", "smokes: missing", "smokes: unseen",
    ]  # fmt: skip
    assert columns.layout == [
        ["continuous", 2], ["ordinal", 3], ["categorical", 4], ["categorical", 4],
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from(["a", "b", "c", "?"]), min_size=3, max_size=30),
    st.lists(st.sampled_from(["a", "b", "c", "d", "?"]), min_size=1, max_size=30),
)
@settings(deadline=None)
def test_every_value_is_one_level_or_one_flag(train, rows):
    if set(train) == {"?"}:
        return
    columns = learn_columns(read_table({"v": train}), {"v": "categorical"})
    found = columns.encode(read_table({"v": rows}))
    assert (found.x.sum(1) == 1).all()
    seen = set(train) - {"?"}
    assert found.unseen[:, 0].tolist() == [v not in seen and v != "?" for v in rows]
    assert found.missing[:, 0].tolist() == [v == "?" for v in rows]


def test_numbers_as_text_and_text_as_numbers_are_the_same_levels():
    columns = learn_columns(read_table({"code": [1, 2, 1]}), {"code": "categorical"})
    mixed = columns.encode(read_table({"code": ["1.0", "2", "x"]}))
    assert mixed.x.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]


def test_truth_values_are_the_same_levels_as_words_and_as_numbers(tmp_path):
    columns = learn_columns({"a": [True, False] * 6})
    for same in (["True", "False"], ["TRUE", "false"], ["1", "0.0"], [1, 0]):
        encoded = columns.encode(read_table({"a": same}))
        assert not encoded.unseen.any()
        assert torch.equal(encoded.x, columns.encode(read_table({"a": [True, False]})).x)
    assert learn_columns({"a": ["False", "True"] * 6}) == columns


def test_long_whole_numbers_are_levels_of_their_own():
    near = ["1234567890123456", "1234567890123457", "x"]
    assert learn_columns({"a": near * 6}).columns[0].levels == tuple(near)


def test_ordinal_text_needs_its_order():
    table = read_table({"size": ["low", "high", "low", "middle"]})
    with pytest.raises(NescioError, match="give its order"):
        learn_columns(table, {"size": "ordinal"})
    order = ["low", "middle", "high"]
    columns = learn_columns(table, {"size": "ordinal"}, levels={"size": order})
    x = columns.encode(table).x[:, 0]
    places = np.array([0, 2, 0, 1])
    np.testing.assert_allclose(x, (places - places.mean()) / places.std(), rtol=1e-6)


def test_a_constant_column_is_not_divided_by_zero():
    columns = learn_columns(read_table({"v": [3.0, 3.0, None]}), {"v": "continuous"})
    assert columns.encode(read_table({"v": [3.0, 5.0]})).x.tolist() == [[0, 0], [2, 0]]
    empty = learn_columns(read_table({"v": [None, None]}), {"v": "continuous"})
    assert empty.encode(read_table({"v": [1.0, None]})).x.tolist() == [[1, 0], [0, 1]]


def test_columns_are_saved_and_read_again(tmp_path):
    columns = learn_columns(TRAIN)
    again = nescio.load(columns.save(tmp_path / "columns.json"))
    assert again == columns
    torch.testing.assert_close(again.encode(TRAIN).x, columns.encode(TRAIN).x, rtol=0, atol=0)
    (tmp_path / "other.json").write_text(json.dumps({"kind": "model"}))
    with pytest.raises(NescioError, match="not written by nescio"):
        nescio.load(tmp_path / "other.json")


def test_what_is_refused():
    with pytest.raises(NescioError, match="unknown kind 'ordinl'; did you mean 'ordinal'"):
        learn_columns(TRAIN, {"age": "ordinl"})
    with pytest.raises(NescioError, match="unknown column 'agee'"):
        learn_columns(TRAIN, {"agee": "continuous"})
    with pytest.raises(NescioError, match="like a name or a number of a person"):
        learn_columns(read_table({"name": [f"p{i}" for i in range(19)] + ["p0"]}))
    with pytest.raises(NescioError, match="row 1 holds 'old'"):
        learn_columns(read_table({"age": ["20", "old"]}), {"age": "continuous"})
    with pytest.raises(NescioError, match="row 2 holds 'old'"):
        learn_columns(TRAIN).encode(TRAIN.changed(age=["1", None, "old"] * 4))
    with pytest.raises(NescioError, match="each once"):
        learn_columns(TRAIN, {"sex": "categorical"}, levels={"sex": ["F", "F"]})
    with pytest.raises(NescioError, match="needs levels"):
        learn_columns(read_table({"v": [None, None]}), {"v": "categorical"})
    with pytest.raises(NescioError, match="unknown column 'age'"):
        learn_columns(TRAIN).encode(TRAIN.without("age"))
    with pytest.raises(NescioError, match="'age' has a value beyond float32"):
        learn_columns(TRAIN).encode(TRAIN.changed(age=[1e60] * 12))


def test_columns_are_a_value():
    assert Columns((Column(name="a", kind="continuous"),)) == Columns(
        (Column(name="a", kind="continuous"),), ("n",)
    )
    assert len(learn_columns(TRAIN)) == 4


def test_damaged_columns_are_refused_when_they_are_read(tmp_path):
    path = learn_columns(TRAIN).save(tmp_path / "columns.json")
    whole = json.loads(path.read_text())
    changes = {"kind": "other", "mean": "much", "deviation": 0, "name": None}
    for name, value in changes.items():
        columns = [{**whole["columns"][0], name: value}]
        path.write_text(json.dumps({**whole, "columns": columns}))
        with pytest.raises(NescioError, match="damaged manifest"):  # it was altered
            nescio.load(path)
        if name != "name":
            save_manifest(path, {"kind": "columns", "columns": columns})
            with pytest.raises(NescioError, match="damaged manifest|unknown kind|needs a finite"):
                nescio.load(path)
    save_manifest(path, {"kind": "columns", "columns": []})
    with pytest.raises(NescioError, match="there are no columns"):
        nescio.load(path)
