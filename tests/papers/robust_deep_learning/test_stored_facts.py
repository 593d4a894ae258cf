"""Facts from stored numbers: intervals, means over seeds, shares, and what is left open."""

import math

import pytest
from scipy.stats import norm, t

from nescio_papers.kit import A_SHARE
from nescio_papers.robust_deep_learning.stored_facts import (
    between,
    largest,
    learned,
    less,
    mean_of,
    of_count,
    over_seeds,
    simultaneous,
    smallest,
)


def ends(value, low, high):
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ends(0.5, 0.4, 0.6), "holds"),
        (ends(0.5, 0.2, 0.6), "open"),
        (ends(0.1, 0.0, 0.2), "does not hold"),
        (ends(0.5, 0.5, 0.5), "open"),  # no width: no interval
        (ends(None, None, None), "open"),
        (None, "open"),
    ],
)
def test_a_stored_number_is_on_its_side_of_the_limit(found, verdict):
    assert between("x", found, above=0.3).verdict == verdict


def test_a_mean_over_seeds_has_students_interval():
    found = over_seeds("x", [1.0, 2.0, 4.0], above=0)
    half = t.ppf(0.975, 2) * math.sqrt(7 / 3) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((7 / 3 - half, 7 / 3 + half))
    assert over_seeds("x", [1.0, None], above=0).verdict == "open"
    assert over_seeds("x", [1.0], above=0).verdict == "open"
    assert over_seeds("x", [1.0, 1.0], above=0).verdict == "open"


def test_the_interval_of_a_share_stays_between_0_and_1():
    found = between("x", ends(0.01, -0.02, 0.03), below=0.5, within=A_SHARE)
    assert (found.low, found.high) == (0.0, 0.03)
    assert between("x", ends(0.01, -0.02, 0.03), below=0.5).low == -0.02  # a difference
    area = over_seeds("x", [0.9, 1.0, 1.0], above=0.5, within=A_SHARE)
    assert area.low == over_seeds("x", [0.9, 1.0, 1.0], above=0.5).low
    assert area.high == 1.0


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [(0.15, "holds"), (0.45, "does not hold"), ([0.14, 0.15, 0.16], "holds"),
     ([0.44, 0.45, 0.46], "does not hold"), ([0.14, 0.15, 0.21], "does not hold"),
     (math.nan, "open"), ([0.14, math.nan], "open"), ([None, 0.14], "open"), ([], "open")],
)  # fmt: skip
def test_photographs_are_learned_below_a_fifth_of_errors(errors, verdict):
    (need,) = learned("CIFAR-10", "test error", errors)
    assert need.verdict == verdict
    assert learned("MNIST", "test error", errors) == []


def test_a_share_has_its_exact_interval():
    found = of_count("x", 10, 10, above=0.5)
    assert found.low == pytest.approx(0.025**0.1)
    assert found.verdict == "holds"
    assert of_count("x", 0, 10, above=0.5).verdict == "does not hold"
    assert of_count("x", 0, 0, above=0.5).verdict == "open"


def test_differences_and_means_keep_the_wider_ends():
    one, two = ends(3.0, 2.0, 4.0), ends(1.0, 0.5, 1.5)
    assert less(one, two) == ends(2.0, 0.5, 3.5)
    assert mean_of([one, two]) == ends(2.0, 1.25, 2.75)
    assert math.isnan(mean_of([])["value"])


def test_the_extreme_of_several_has_a_wider_interval():
    one, two = ends(3.0, 2.0, 4.0), ends(1.0, 0.5, 1.5)
    wider = norm.isf(0.0125) / norm.isf(0.025)
    assert smallest([one, two]) == pytest.approx(ends(1.0, 1 - wider / 2, 1 + wider / 2))
    assert largest([one, two]) == pytest.approx(ends(3.0, 3 - wider, 3 + wider))
    assert simultaneous(one, 1) == one
    assert math.isnan(smallest([])["value"])
    assert math.isnan(largest([])["value"])


def test_what_is_missing_leaves_the_smallest_open_in_any_order():
    known, missing = ends(0.5, 0.4, 0.6), ends(None, None, None)
    for found in ([known, missing], [missing, known], []):
        assert math.isnan(smallest(found)["value"])
        assert between("x", largest(found), below=0.9).verdict == "open"


def test_a_wide_interval_counts_though_its_number_is_not_the_smallest():
    found = smallest([ends(0.5, 0.45, 0.55), ends(0.6, 0.1, 1.1)])
    assert found["value"] == 0.5
    assert found["low"] < 0.1
