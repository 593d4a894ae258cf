"""Limits against the definition of the p-value, with ties, and their law."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.conformal import check_groups, coverage_law, needed
from nescio.conformal.score_limits import allowed, check_miscoverage, fit_limits, limits, uniforms
from nescio.core import NescioError

SHARES = st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.29, 0.5, 0.9, 0.97])


def kept(state, values, u=None):
    """Whether each value is at or below the limit of the one cell."""
    values = torch.tensor(values, dtype=torch.float64)
    u = None if u is None else torch.tensor(u, dtype=torch.float64)
    highest, closed = limits(state, torch.zeros(len(values), dtype=torch.int64), u)
    return ((values < highest) | (closed & (values == highest))).tolist()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), SHARES)
def test_a_score_is_kept_when_its_p_value_exceeds_the_share(scores, share):
    state = fit_limits(np.array(scores, float), np.zeros(len(scores), np.int64), 1, share)
    new = [value / 2 for value in range(-1, 15)]
    bar = Fraction(str(share)) * (len(scores) + 1)
    expected = [1 + sum(old >= value for old in scores) > bar for value in new]
    assert kept(state, new) == expected


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    SHARES,
    st.floats(1e-6, 1.0, exclude_min=True),
)
def test_the_randomized_rule_is_that_of_the_smoothed_p_value(scores, share, u):
    state = fit_limits(np.array(scores, float), np.zeros(len(scores), np.int64), 1, share)
    new = [value / 2 for value in range(-1, 11)]
    bar = share * (len(scores) + 1)
    if allowed(len(scores), share) == 0:
        assert all(kept(state, new, [u] * len(new)))
        return
    above = [sum(old > value for old in scores) for value in new]
    equal = [sum(old == value for old in scores) for value in new]
    values = [a + u * (e + 1) for a, e in zip(above, equal, strict=True)]
    clear = [abs(value - bar) > 1e-9 for value in values]  # rounding decides the others
    found = kept(state, new, [u] * len(new))
    assert [f for f, c in zip(found, clear, strict=True) if c] == [
        value > bar for value, c in zip(values, clear, strict=True) if c
    ]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_ties_are_met_exactly_when_every_sample_takes_its_turn_as_the_new_one(share):
    values = [0.0] * 5 + [1.0] * 20 + [2.0] * 3 + [3.0] * 2 + [4.0] * 15
    us = (np.arange(2000) + 0.5) / 2000
    probability = []
    for place in range(len(values)):
        rest = np.array(values[:place] + values[place + 1 :])
        state = fit_limits(rest, np.zeros(len(rest), np.int64), 1, share)
        probability.append(np.mean(kept(state, [values[place]] * len(us), us.tolist())))
        strict = kept(state, [values[place]])[0]
        assert strict >= probability[-1] - 1e-3
    assert np.mean(probability) == pytest.approx(1 - share, abs=1e-3)


def test_cells_are_as_if_alone():
    rng = np.random.default_rng(0)
    scores, cells = rng.integers(0, 9, 200).astype(float), rng.integers(0, 4, 200)
    state = fit_limits(scores, cells, 5, 0.1)
    for cell in range(4):
        own = fit_limits(scores[cells == cell], np.zeros((cells == cell).sum(), np.int64), 1, 0.1)
        for name in ("low", "high", "steps", "sizes"):
            assert state[name][..., cell].tolist() == own[name][..., 0].tolist()
    assert state["high"][4] == math.inf  # a cell without samples has no limit


def test_a_share_is_the_decimal_that_was_written():
    assert 0.29 * 100 < 29
    assert allowed(99, 0.29) == 29
    assert allowed(9, 0.1) == 1


@pytest.mark.parametrize("share", [0.001, 0.01, 0.03, 0.1, 0.3, 1 / 3, 0.9])
def test_needed_is_the_first_size_with_a_limit(share):
    assert allowed(needed(share), share) >= 1
    assert needed(share) == 0 or allowed(needed(share) - 1, share) == 0


def test_coverage_given_the_calibration_samples_is_beta():
    from scipy.stats import beta, kstest

    rng, coverages = np.random.default_rng(0), []
    cells = np.repeat(np.arange(3000), 50)
    state = fit_limits(rng.random(len(cells)), cells, 3000, 0.1)
    coverages = state["high"].numpy()  # of uniform scores: the share below it
    assert kstest(coverages, beta(*coverage_law(50, 0.1)).cdf).pvalue > 1e-3


def test_draws_are_functions_of_the_key_of_the_sample():
    from scipy.stats import kstest

    numbers = torch.arange(20_000)
    whole = uniforms(3, 0, numbers)
    assert torch.equal(uniforms(3, 0, numbers[40:60]), whole[40:60])
    assert kstest(whole.numpy(), "uniform").pvalue > 1e-3
    for other in (uniforms(4, 0, numbers), uniforms(3, 1, numbers), whole.roll(1)):
        assert abs(float(torch.corrcoef(torch.stack([whole, other]))[0, 1])) < 0.03
    assert ((whole > 0) & (whole <= 1)).all()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, True, math.nan])
def test_a_share_lies_between_0_and_1(share):
    with pytest.raises(NescioError, match="between 0 and 1"):
        check_miscoverage(share)


def test_groups_in_words_are_told_to_be_numbered_once():
    with pytest.raises(NescioError, match="use the same numbers for new inputs"):
        check_groups(np.array(["north", "south"]), 2)
    assert check_groups(np.array([3, 1]), 2).tolist() == [3, 1]
