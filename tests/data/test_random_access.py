"""Rows of random numbers by index, against one long draw; permutations against `argsort`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, Philox, SeedSequence

from nescio.data import random_access

KINDS = {"single": np.float32, "double": np.float64, "bits": np.uint64}


def long_draw(seed, stream, count, kind):
    source = Philox(SeedSequence(seed, spawn_key=(stream,)))
    if kind is np.uint64:
        return source.random_raw(count)
    return Generator(source).random(count, dtype=kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@given(
    indices=st.lists(st.integers(0, 40), max_size=30),
    size=st.integers(1, 13),
    seed=st.integers(0, 3),
    stream=st.integers(0, 7),
)
@settings(max_examples=40, deadline=None)
def test_rows_are_those_of_one_long_draw(kind, indices, size, seed, stream):
    whole = long_draw(seed, stream, 41 * size, kind).reshape(41, size)
    found = random_access.rows(seed, stream, np.array(indices, np.int64), size, kind)
    assert found.dtype == kind
    assert np.array_equal(found, whole[np.array(indices, np.int64)])


def test_far_rows_are_reached_at_once_and_backwards():
    far = np.array([2**62, 5, 2**62 + 1, 2**62])
    found = random_access.rows(1, 0, far, 784, np.float32)
    assert np.array_equal(found[0], found[3])
    assert np.array_equal(found[1], random_access.rows(1, 0, far[1:2], 784, np.float32)[0])
    assert np.array_equal(found[2], random_access.rows(1, 0, far[2:3], 784, np.float32)[0])
    assert len(np.unique(found[:3, 0])) == 3


@pytest.mark.parametrize("size", [1, 2, 9, 784, 2048, 2049, 3000])
def test_orders_are_those_of_a_stable_argsort(size):
    indices = np.array([3, 4, 0])
    keys = random_access.rows(5, random_access.ORDER, indices, size, np.float64)
    expected = np.argsort(keys, axis=1, kind="stable")
    assert np.array_equal(random_access.orders(5, random_access.ORDER, indices, size), expected)


def test_equal_keys_keep_their_order(monkeypatch):
    monkeypatch.setattr(
        random_access,
        "rows",
        lambda seed, stream, indices, size, kind: np.full((1, size), 77, kind),
    )
    for size in (5, 2048, 2049):
        assert np.array_equal(
            random_access.orders(0, 0, np.zeros(1, np.int64), size)[0], np.arange(size)
        )


def test_streams_and_seeds_share_nothing():
    first = [
        random_access.rows(s, t, np.arange(2), 50, np.float64) for s in (0, 1) for t in range(11)
    ]
    assert len(np.unique(np.concatenate(first))) == 22 * 2 * 50
