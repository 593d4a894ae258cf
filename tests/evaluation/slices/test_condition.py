"""Conditions on columns."""

import numpy as np
import pytest
import torch

from nescio import NescioError
from nescio.core import from_json, to_json
from nescio.evaluation.slices.condition import (
    Condition,
    conditions_of,
    cuts,
    read_columns,
    shortest,
)


def test_conditions_say_what_they_mean():
    table = read_columns({"age": [50, 70, np.nan], "site": ["a", "b", None], "new": [True, 0, 1]})
    over = Condition(column="age", relation=">", value=60.0)
    assert str(over) == "age > 60"
    assert over.holds(table).tolist() == [False, True, False]
    assert Condition(column="age", relation="is missing").holds(table).tolist() == [0, 0, 1]
    assert Condition(column="site", relation="is missing").holds(table).tolist() == [0, 0, 1]
    named = Condition(column="site", relation="=", value="b")
    assert str(named) == "site = b"
    assert named.holds(table).tolist() == [0, 1, 0]
    assert from_json(Condition, to_json(over)) == over
    assert from_json(Condition, to_json(named)) == named


def test_thresholds_are_short_and_near_quantiles():
    values = np.random.default_rng(0).normal(50, 12, 4000)
    found = cuts(values, 20)
    assert len(found) == 19
    shares = [(values <= cut).mean() for cut in found]
    np.testing.assert_allclose(shares, np.arange(1, 20) / 20, atol=0.0151)
    assert max(len(f"{cut:g}") for cut in found) <= 4
    assert shortest(0.12341, 0.12349) == 0.12345
    assert shortest(3.0, 4.0) in (3.0, 3.5)
    assert cuts(np.array([1.0, 1, 1, 1, 1, 1, 1, 2]), 4) == [shortest(1.0, 2.0)]


def test_few_whole_numbers_may_be_codes():
    said = [str(one) for one in conditions_of("site", np.array([1.0, 2, 3] * 10), steps=4)]
    assert {"site = 1", "site = 2", "site = 3"} < set(said)
    assert [str(one) for one in conditions_of("flag", np.array([0.0, 1] * 10), steps=4)] == [
        "flag = 0",
        "flag = 1",
    ]
    assert list(conditions_of("gone", np.full(5, np.nan), steps=4)) == [
        Condition(column="gone", relation="is missing")
    ]


def test_arrays_and_tensors_are_columns():
    assert list(read_columns(torch.zeros(3, 2))) == ["column 0", "column 1"]
    frame = pytest.importorskip("pandas").DataFrame({"a": [1, 2], "b": ["x", "y"]})
    table = read_columns(frame)
    assert table["a"].dtype == np.float64
    assert table["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros(3), r"\(N, D\)"),
        ([1, 2], "a mapping, a frame or an array"),
        ({"a": [1, 2], "b": [1]}, "a: 2, b: 1"),
        ({"a": [[1, 2]]}, "one-dimensional"),
        ({"a": np.zeros(2, complex)}, "complex128"),
    ],
)
def test_bad_columns(given, words):
    with pytest.raises(NescioError, match=words):
        read_columns(given)


def test_a_condition_needs_its_column():
    with pytest.raises(NescioError, match="needs the column 'age'"):
        Condition(column="age", relation=">", value=1.0).holds({})
