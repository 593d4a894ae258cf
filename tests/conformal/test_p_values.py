"""P-values against their definition, their law, and Benjamini-Hochberg against scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.conformal import benjamini_hochberg, p_values
from nescio.core import NescioError

SCORES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=40)


@settings(deadline=None)
@given(SCORES, SCORES)
def test_a_p_value_counts_the_scores_at_or_above(known, new):
    expected = [(1 + sum(k >= s for k in known)) / (len(known) + 1) for s in new]
    assert p_values(known, new).tolist() == pytest.approx(expected, abs=1e-15)


@settings(deadline=None)
@given(SCORES, SCORES)
def test_a_randomized_p_value_lies_between_the_scores_above_and_at_or_above(known, new):
    smooth = p_values(known, new, randomize=True, inputs=np.arange(len(new)))
    above = torch.tensor([sum(k > s for k in known) / (len(known) + 1) for s in new])
    assert (smooth > above.double() - 1e-7).all()
    assert (smooth <= p_values(known, new)).all()


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_false_alarms_keep_the_guarantee_and_come_near_it(alpha):
    from scipy.stats import binomtest

    rng = np.random.default_rng(1)
    alarms = np.array(
        [(p_values(rng.random(300), rng.random(40)) <= alpha).numpy() for _ in range(800)]
    )
    first = int(alarms[:, 0].sum())
    assert binomtest(first, len(alarms), alpha, alternative="greater").pvalue > 1e-3
    assert alarms.mean() == pytest.approx(int(alpha * 301) / 301, rel=0.15)


def test_randomized_p_values_are_uniform_also_where_all_scores_tie():
    from scipy.stats import kstest

    smooth = p_values(np.zeros(100), np.zeros(5000), randomize=True, inputs=np.arange(5000))
    assert kstest(smooth.numpy(), "uniform").pvalue > 1e-3
    assert (p_values(np.zeros(100), np.zeros(5)) == 1).all()


def test_batches_of_randomized_p_values_are_those_of_the_whole():
    known, new = torch.randn(50).round(), torch.randn(30).round()
    x = torch.randn(30, 2)
    whole = p_values(known, new, randomize=True, seed=4, inputs=x)
    for rows in (slice(10, None), slice(7, 8)):
        part = p_values(known, new[rows], randomize=True, seed=4, inputs=x[rows])
        assert torch.equal(part, whole[rows])
    with pytest.raises(NescioError, match="need inputs="):
        p_values(known, new, randomize=True)


def test_infinite_scores_are_furthest_out():
    assert p_values([1.0, 2.0, math.inf], [math.inf, -math.inf]).tolist() == [0.5, 1.0]


def test_no_new_scores_are_no_p_values():
    assert p_values([1.0], torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("known", "new", "words"),
    [
        ([1.0, math.nan], [1.0], "1 of 2 calibration_scores are NaN"),
        ([1.0], [math.nan], "1 of 1 scores are NaN"),
        ([], [1.0], "empty"),
        ([[1.0]], [1.0], "one-dimensional"),
    ],
)
def test_scores_that_have_no_p_value_are_refused(known, new, words):
    with pytest.raises(NescioError, match=words):
        p_values(known, new)


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.sampled_from([0.05, 0.1, 0.3]))
def test_benjamini_hochberg_agrees_with_scipy(hundredths, level):
    from scipy.stats import false_discovery_control

    p = np.array(hundredths) / 100
    adjusted = false_discovery_control(p)
    clear = np.abs(adjusted - level) > 1e-9
    found = benjamini_hochberg(torch.from_numpy(p), level).numpy()
    assert (found == (adjusted <= level))[clear].all()


def test_the_false_share_of_a_batch_is_bounded():
    rng = np.random.default_rng(0)
    ood, shares = np.arange(100) % 5 == 0, []
    for _ in range(400):
        p = p_values(rng.standard_normal(500), rng.standard_normal(100) + 4 * ood)
        alarms = benjamini_hochberg(p, 0.1).numpy()
        shares.append((alarms & ~ood).sum() / max(1, alarms.sum()))
    error = np.std(shares) / math.sqrt(len(shares))
    assert np.mean(shares) <= 0.08 + 3.1 * error  # 0.1 times the share inside


@pytest.mark.parametrize(("p", "level"), [([0.5, 1.5], 0.1), ([math.nan], 0.1), ([0.5], 0.0)])
def test_what_is_no_p_value_or_level_is_refused(p, level):
    with pytest.raises(NescioError, match="between 0 and 1|from 0 to 1"):
        benjamini_hochberg(p, level)


def test_randomized_p_values_of_equal_inputs_are_uniform_over_calibration_sets():
    rng = np.random.default_rng(0)
    draws = [
        float(p_values(old, [1.0], randomize=True, inputs=torch.zeros(1, 1)))
        for old in rng.integers(2, size=(500, 20)) * 1.0
    ]
    assert len(set(draws)) > 450  # by the seed alone: one number for each count of ones
