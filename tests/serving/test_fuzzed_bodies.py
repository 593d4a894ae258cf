"""Bodies at random give rows or an error that says why, and nothing else."""

import tracemalloc
from collections import Counter

import pytest
from benchmarks.fuzz_bodies import cases, outcome, seeds


def test_bodies_at_random_give_rows_or_an_error():
    for seed in seeds():
        assert outcome(*seed) == "rows"
    counts = Counter(outcome(*case) for case in cases(1500))
    assert {*counts} == {"rows", "400", "413", "415", "422"}
    assert counts["rows"] > 200


def test_no_body_takes_much_more_memory_than_it_has_bytes():
    for case in seeds():
        outcome(*case)
    tracemalloc.start()
    try:
        for case in cases(300, seed=1):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            outcome(*case)
            assert tracemalloc.get_traced_memory()[1] - before < 1_000_000 + 20 * len(case[2])
    finally:
        tracemalloc.stop()


def test_tensors_at_random_give_rows_or_an_error():
    pytest.importorskip("fastapi")
    from benchmarks import fuzz_tensors

    for seed in fuzz_tensors.seeds():
        assert fuzz_tensors.outcome(*seed) == "rows"
    assert {*fuzz_tensors.outcomes(500)} <= {"rows", "400", "413", "422"}
