"""Bets are fair, and the capital is what a plain double sum over bets and starts gives."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.monitoring.martingale import BLOCK, COUNT, factors, grow, reserve

NONE = np.full(COUNT, -np.inf)


def test_every_bet_is_fair_and_never_loses_all():
    points = (np.arange(20_000) + 0.5) / 20_000  # the steps fall between them
    found = factors(points)
    assert found.shape == (COUNT, 20_000)
    np.testing.assert_allclose(found.mean(1), 1, atol=1e-8)
    assert found.min() > 0.19
    assert len(np.unique(found, axis=0)) == COUNT


def double_sum(p):
    """M_t = R(t + 1) + mean over bets of the sum over starts s of share_s times their gains."""
    left = [1 / (1 + math.log(1 + s)) for s in range(len(p) + 1)]
    totals = np.array(left[1:])
    for bet in factors(p):
        for start in range(len(p)):
            share = (left[start] - left[start + 1]) / COUNT
            totals[start:] += share * np.multiply.accumulate(bet[start:])
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
    assert capital[-1] == pytest.approx(1000 * BLOCK * math.log(60.4), rel=1e-3)
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
