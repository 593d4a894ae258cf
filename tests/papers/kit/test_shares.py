"""Shares and spreads in words, and budgets of two sizes."""

import math
from dataclasses import dataclass

import pytest

from nescio_papers.kit import (
    at_least,
    between,
    full_and_quick,
    mean_range,
    percent,
    sample,
    size,
)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.5, "50 %"), (0.0004, "0.04 %"), (0.99999, "99.999 %"),
     (0.999, "99.9 %"), (math.nan, "–")],
)  # fmt: skip
def test_shares_are_not_rounded_to_all_or_none(value, said):
    assert percent(value) == said


def test_what_nearly_all_do_is_not_what_all_do():
    assert at_least(1.0, "rays") == "all rays"
    assert at_least(0.992, "rays") == "at least 99.2 % of the rays"
    assert percent(1 - 1e-7) == "over 99.999 %"
    assert percent(1e-7) == "under 0.001 %"


def test_several_trainings_have_a_mean_and_a_range():
    assert mean_range([1.0, 4.0, 1.0]) == {"mean": 2.0, "low": 1.0, "high": 4.0}
    assert between(mean_range([0.5, 0.25]), ".2f") == "0.38 (0.25 to 0.50)"


def test_an_interval_is_that_of_student():
    three = sample([1, 2, 3])
    assert three.half == pytest.approx(4.302653 / math.sqrt(3))
    assert not three.above
    assert (three - sample([0, 0, 0])).mean == 2
    assert math.isnan(sample([1]).half)


def test_a_budget_states_each_size_once():
    @dataclass(frozen=True)
    class Budget:
        epochs: int = size(100, quick=2)
        train: dict = size({"MNIST": 60_000}, quick={"MNIST": 100})

    full, quick = full_and_quick(Budget)
    assert full == Budget(epochs=100, train={"MNIST": 60_000})
    assert quick == Budget(epochs=2, train={"MNIST": 100})
