"""Slices that are planted are found; where there is none, none is reported."""

import numpy as np
import pytest
from benchmarks.planted_slices import draw, outcome

from nescio import NescioError
from nescio.conformal import binomial_interval
from nescio.core import from_json, to_json
from nescio.evaluation import Slices, find_slices


def test_a_planted_slice_is_found():
    assert outcome("class and number", 0, 0.05, 0.02)


def test_nothing_is_reported_where_there_is_nothing():
    assert not outcome("none", 0, 0.05, 0.02)
    assert not outcome("none, overconfident everywhere", 1, 0.05, 0.02)


@pytest.fixture(scope="module")
def found():
    wrong, columns, confidence, planted = draw("one word", 3, 0.05)
    return find_slices(wrong, columns, confidence=confidence), wrong, columns, planted


def test_numbers_are_of_samples_that_were_not_searched(found):
    slices, wrong, columns, planted = found
    one = slices.found[0]
    mine = one.holds(columns)
    assert (mine == planted).all()
    assert str(one) == "site = site 7"
    assert 0.3 * mine.sum() < one.samples < 0.7 * mine.sum()
    exact = binomial_interval(one.errors, one.samples, level=1 - 0.05 / slices.tested)
    assert one.error_rate == exact
    assert one.rows == tuple(np.flatnonzero(mine & wrong)[:100])
    assert one.share == mine.mean()
    assert one.p_wrong < 0.001
    assert one.p_overconfident < 0.001
    assert 0.03 < one.alike < 0.07  # what samples of equal confidence show
    assert slices.words(one).startswith("site = site 7: ")
    assert "others 4 %, though the mean confidence is 95 %" in slices.words(one)
    assert slices.words(one) in str(slices)


def test_slices_are_json(found):
    slices = found[0]
    assert from_json(Slices, to_json(slices)) == slices
    assert len(slices) == len(list(slices))


def test_the_same_seed_finds_the_same():
    rng = np.random.default_rng(0)
    wrong, site = rng.random(500) < 0.2, rng.choice(list("abc"), 500)
    assert find_slices(wrong, {"site": site}) == find_slices(wrong, {"site": site})


def test_two_slices_are_both_reported():
    rng = np.random.default_rng(0)
    site, age = rng.choice(list("abcdefgh"), 4000), rng.uniform(20, 90, 4000)
    chance = 0.03 + 0.25 * (site == "c") + 0.25 * (age > 80)
    slices = find_slices(rng.random(4000) < chance, {"site": site, "age": age})
    said = [str(one) for one in slices]
    assert "site = c" in said
    assert any(one.startswith("age > ") for one in said)
    assert all(one.p_overconfident is None for one in slices)


def test_missing_values_can_be_a_slice():
    rng = np.random.default_rng(1)
    dose = rng.random(3000)
    dose[rng.random(3000) < 0.1] = np.nan
    slices = find_slices(rng.random(3000) < np.where(np.isnan(dose), 0.4, 0.1), {"dose": dose})
    assert str(slices.found[0]) == "dose is missing"


def test_many_columns_are_searched_by_their_best_conditions():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2000, 150))
    wrong = rng.random(2000) < 0.05 + 0.35 * (x[:, 77] > 1.3)
    assert "column 77 > " in str(find_slices(wrong, x).found[0])


@pytest.mark.parametrize(
    ("wrong", "columns", "more", "words"),
    [
        (np.zeros(100), {"a": np.arange(100)}, {}, "0 of 100 samples are wrong: too few"),
        ([0, 1], {"a": [1, 2]}, {}, "too few"),
        ([0, 2], {"a": [1, 2]}, {}, "0 or 1"),
        ([0, 1], {}, {}, "at least one"),
        ([0, 1], {"a": [1, 2, 3]}, {}, "wrong: 2, columns: 3"),
        ([0, 1], {"a": [1, 2]}, {"confidence": [0.5, 7.0]}, "not logits"),
        ([0, 1], {"a": [1, 2]}, {"level": 5}, "level"),
    ],
)
def test_bad_input(wrong, columns, more, words):
    with pytest.raises(NescioError, match=words):
        find_slices(wrong, columns, **more)


def test_columns_that_never_vary_give_no_slice():
    slices = find_slices(np.arange(200) % 2, {"a": np.ones(200)})
    assert not len(slices)
    assert "no slice" in str(slices)
