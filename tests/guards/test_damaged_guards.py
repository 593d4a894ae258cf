"""Damaged guard files are refused with a message, or are the same guard."""

import pytest
from benchmarks.damaged_guards import DAMAGES, run


@pytest.fixture(scope="module")
def found():
    return run(60, seed=1)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_guard_is_refused_or_the_same(found, damage):
    assert sum(found[damage].values()) == 10
    assert set(found[damage]) <= {"refused", "the same guard"}
