"""Bets are fair, and the capital is what a plain double sum over bets and starts gives."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.monitoring.martingale import (
    BLOCK,
    COUNT,
    REACH,
    SHARES,
    factors,
    grow,
    reserve,
    tie_numbers,
)

REACHED = NormalDist().cdf(-REACH)
NONE = np.full(COUNT, -np.inf)


def test_every_bet_is_fair_and_never_loses_all():
    edges = [0, 1e-9, REACHED, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99, 1 - 1e-4, 1 - REACHED, 1 - 1e-9, 1]
    nodes, weights = np.polynomial.legendre.leggauss(60)
    mean = np.zeros(COUNT)
    for low, high in itertools.pairwise(edges):
        mean += factors(low + (high - low) * (nodes + 1) / 2) @ weights * (high - low) / 2
    np.testing.assert_allclose(mean, 1, atol=1e-8)
    found = factors(np.array([0.0, 1e-7, 0.3, 1 - 1e-7, 1.0]))
    assert np.array_equal(found[:, 0], found[:, 1])  # beyond the reach nothing changes
    assert np.array_equal(found[:, 3], found[:, 4])
    assert (BLOCK * np.log(found)).min() > math.log(1e-300)  # products over a block
    assert (BLOCK * np.log(found)).max() < math.log(1e300)
    assert len(np.unique(found, axis=0)) == COUNT
    assert SHARES.sum() == pytest.approx(1, abs=1e-12)
    assert SHARES.min() > 0


def double_sum(p):
    """M_t = R(t + 1) + the sum over bets and starts s of share times placed_s times their gains."""
    left = [1.0] + [0.8 * (1 + s / 100) ** -0.3 for s in range(1, len(p) + 1)]
    totals = np.array(left[1:])
    for bet, share in zip(factors(p), SHARES, strict=True):
        for start in range(len(p)):
            placed = (left[start] - left[start + 1]) * share
            totals[start:] += placed * np.multiply.accumulate(bet[start:])
    return np.log(totals)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 150])
def test_the_capital_is_the_mixture_over_bets_and_starts(size):
    p = np.random.default_rng(0).beta(0.5, 1.2, size)
    capital, after = grow(NONE, 0, p)
    np.testing.assert_allclose(capital, double_sum(p), rtol=1e-11, atol=1e-12)
    assert after.shape == (size // BLOCK + 1, COUNT)


@given(cut=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_pieces_give_the_same_bits(cut, seed):
    p = np.random.default_rng(seed).random(6 * BLOCK + 7)
    whole, after = grow(NONE, 0, p)
    first, between = grow(NONE, 0, p[: cut * BLOCK])
    second, end = grow(between[-1], cut * BLOCK, p[cut * BLOCK :])
    assert np.array_equal(np.concatenate([first, second]), whole)
    assert np.array_equal(end[-1], after[-1])


def test_a_long_drift_does_not_overflow_and_a_long_quiet_time_costs_little():
    capital, after = grow(NONE, 0, np.full(1000 * BLOCK, 1e-9))
    most = math.log(factors(np.array([1e-9])).max())
    assert capital[-1] == pytest.approx(1000 * BLOCK * most, rel=1e-3)
    assert np.isfinite(after[-1]).any()
    quiet = (np.arange(1000 * BLOCK) * 0.6180339887) % 1
    capital, _ = grow(NONE, 0, quiet)
    assert (capital >= np.log(reserve(1 + np.arange(len(quiet)))) - 1e-12).all()


def test_the_capital_is_one_on_average():
    rng = np.random.default_rng(3)
    found = [math.exp(grow(NONE, 0, rng.random(3))[0][-1]) for _ in range(4000)]
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - 1) < 4 * error
    assert error < 0.1


def test_nothing_is_placed_before_index_0():
    p = np.random.default_rng(4).beta(0.5, 1.2, 200)
    capital, _ = grow(NONE, -70, p)
    assert not capital[:70].any()
    np.testing.assert_allclose(capital[70:], double_sum(p[70:]), rtol=1e-11, atol=1e-12)
    assert not grow(NONE, -500, p)[0].any()


def test_tie_numbers_are_uniform_and_depend_on_all_bins_before():
    from scipy.stats import kstest

    same = np.ones(5000, np.int64)
    found, trails = tie_numbers(1, 0, 0, same)
    assert kstest(found, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.05
    assert found.min() >= 0
    assert found.max() < 1
    again, _ = tie_numbers(1, int(trails[64]), 64, same[64:])
    assert np.array_equal(again, found[64:])
    other, _ = tie_numbers(1, 0, 0, np.where(np.arange(5000) == 100, 2, same))
    assert np.array_equal(other[:101], found[:101])
    assert not np.isclose(other[101:], found[101:]).any()
    assert not np.isclose(tie_numbers(2, 0, 0, same)[0], found).any()
