"""Shares and their exact intervals, by hand and against scipy."""

import pytest
import torch
from scipy.stats import binomtest

from nescio.conformal import binomial_interval, coverage, interval_coverage
from nescio.core import NescioError


@pytest.mark.parametrize(("hits", "samples"), [(0, 10), (10, 10), (3, 10), (950, 1000), (1, 1)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_intervals_of_shares_are_those_of_scipy(hits, samples, level):
    found = binomial_interval(hits, samples, level=level)
    theirs = binomtest(hits, samples).proportion_ci(level, method="exact")
    assert found.value == hits / samples
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_sets_by_hand():
    sets = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]).bool()
    labels, groups = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([7, 7, 9, 9, 9])
    found = coverage(sets, labels, groups=groups)
    assert found.covered.value == pytest.approx(3 / 5)
    assert (found.size, found.singletons, found.empty) == pytest.approx((6 / 5, 2 / 5, 1 / 5))
    assert {name: share.value for name, share in found.by_class.items()} == {0: 1, 1: 0.5, 2: 0}
    assert found.worst_class == 2
    assert found.by_group[7].value == 0.5
    assert found.worst_group == 7
    assert {name: share.value for name, share in found.by_size.items()} == {
        "0": 0.0,
        "1": 1.0,
        "2 to 3": 0.5,
    }
    assert found.worst_size == "0"


def test_large_sets_have_their_strata():
    sets = torch.zeros(3, 200, dtype=torch.bool)
    for row, size in enumerate((5, 100, 150)):
        sets[row, :size] = True
    found = coverage(sets, torch.zeros(3, dtype=torch.int64))
    assert list(found.by_size) == ["4 to 10", "11 to 100", "101 or more"]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (1, ["1"]),
        (2, ["1", "2"]),
        (3, ["1", "2 to 3"]),
        (4, ["1", "2 to 3", "4"]),
        (30, ["1", "2 to 3", "4 to 10", "11 to 30"]),
        (101, ["1", "2 to 3", "4 to 10", "11 to 100", "101"]),
        (102, ["1", "2 to 3", "4 to 10", "11 to 100", "101 or more"]),
    ],
)
def test_sizes_end_at_the_number_of_classes(classes, words):
    sets = torch.ones(classes, classes).bool().tril()  # of 1 to all classes
    found = coverage(sets, torch.zeros(classes, dtype=torch.int64))
    assert list(found.by_size) == words


def test_intervals_by_hand():
    low = torch.tensor([[0.0, 0.0], [0.0, 5.0]])
    found = interval_coverage(low, low + 1, [[1.0, -1.0], [2.0, 5.5]], groups=[0, 1])
    assert [share.value for share in found.covered] == [0.5, 0.5]
    assert found.width == (1.0, 1.0)
    assert found.by_group[0][1].value == 0.0


@pytest.mark.parametrize(
    ("sets", "labels", "words"),
    [
        (torch.ones(3, 2), torch.zeros(3).long(), "booleans"),
        (torch.ones(0, 2).bool(), torch.zeros(0).long(), "a sample or more"),
        (torch.ones(3, 2).bool(), torch.full((3,), 2), "labels must lie in"),
        (torch.ones(3, 2).bool(), torch.zeros(3), "integers"),
    ],
)
def test_what_has_no_coverage_is_refused(sets, labels, words):
    with pytest.raises(NescioError, match=words):
        coverage(sets, labels)


def test_intervals_and_targets_of_other_shapes_are_refused():
    with pytest.raises(NescioError, match="one shape"):
        interval_coverage(torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3, 1))
    with pytest.raises(NescioError, match="from 0 to samples"):
        binomial_interval(3, 2)
