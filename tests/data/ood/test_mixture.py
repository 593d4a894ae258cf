"""Mixtures take their parts in turn, in exact shares."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.data import ood


def numbered(part, size):
    """Inputs (part, 0), (part, 1), ..."""
    x = torch.stack([torch.full((size,), float(part)), torch.arange(float(size))], 1)
    return ood.another(x, f"part {part}")


def by_hand(sizes, weights):
    """Turn by turn until one part has no input left."""
    taken, places = [], [0] * len(sizes)
    while True:
        for part, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
            for _ in range(weight):
                if places[part] == size:
                    return taken
                taken.append([float(part), float(places[part])])
                places[part] += 1


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_turns_and_the_end_are_those_by_hand(pairs):
    sizes, weights = zip(*pairs, strict=True)
    made = ood.mixture([numbered(i, size) for i, size in enumerate(sizes)], weights)
    expected = by_hand(sizes, weights)
    assert made.size == len(expected)
    if expected:
        assert made.take(made.size).tolist() == expected


def test_equal_shares_without_weights():
    made = ood.mixture([numbered(i, 5) for i in range(3)])
    assert made.take(7).tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2]]
    assert made.size == 15
    assert made.name == "part 0 + part 1 + part 2"


def test_an_endless_part_ends_nothing():
    endless = ood.uniform((2,))
    assert ood.mixture([endless, ood.permuted(torch.rand(3, 2))]).size is None
    assert ood.mixture([endless, numbered(1, 4)]).size == 9


@pytest.mark.parametrize(
    "weights", [(1,), (1, 0), (0.5, 0.5), (1, 2, 3), ()], ids=["few", "zero", "parts", "many", "no"]
)
def test_bad_weights_are_refused(weights):
    with pytest.raises(NescioError, match="`weights` must be 2 whole numbers, 1 or more each"):
        ood.mixture([numbered(0, 3), numbered(1, 3)], weights)


def test_no_parts_and_other_shapes_are_refused():
    with pytest.raises(NescioError, match="at least one OOD source"):
        ood.mixture([])
    with pytest.raises(NescioError, match=r"one shape, got 'uniform' \(3,\), 'part 0' \(2,\)"):
        ood.mixture([ood.uniform((3,)), numbered(0, 3)])
