"""Calibration errors against loops, closed forms and simulation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.metrics import classwise_ece, debiased_ece, ece, mce, reliability
from nescio.metrics.binning import equal_counts


def samples(count=500, power=1.5, seed=0):
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.2, 1, count)
    return sure, rng.uniform(size=count) < sure**power


def by_mass(sure, right, bins):
    """Gaps and counts of samples in order of confidence, cut into equal parts."""
    order = np.argsort(sure)
    parts = np.array_split(order, bins)
    gaps = np.array([right[rows].mean() - sure[rows].mean() for rows in parts])
    return gaps, np.array(list(map(len, parts)))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bins_of_equal_mass_are_parts_of_the_sorted_samples(kind):
    sure, right = samples()
    gaps, counts = by_mass(sure, right, 10)
    expected = counts @ np.abs(gaps) / 500
    assert ece(sure.astype(kind), right, bins=10, equal="mass") == pytest.approx(expected, rel=1e-6)
    found = reliability(sure.astype(kind), right, bins=10, equal="mass")
    assert found.count.tolist() == counts.tolist()
    assert found.ece == pytest.approx(expected, rel=1e-6)
    assert mce(sure, right, bins=10, equal="mass") == pytest.approx(np.abs(gaps).max())


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(1, 20),
    st.sampled_from([np.float32, np.float64]),
)
@settings(deadline=None, max_examples=200)
def test_equal_values_share_a_bin_and_no_bin_is_empty(values, bins, kind):
    array = (np.array(values) / 6).astype(kind)
    edges = equal_counts(array, bins)
    slots = np.searchsorted(edges, array)
    assert len(edges) < bins
    assert set(slots.tolist()) == set(range(len(edges) + 1))
    for value in set(values):
        assert len(set(slots[np.array(values) == value].tolist())) == 1


def test_neighboring_numbers_are_still_told_apart():
    low = np.float32(0.5)
    high = np.nextafter(low, np.float32(1))
    assert np.searchsorted(equal_counts(np.array([low, high]), 2), [low, high]).tolist() == [0, 1]


def test_the_largest_gap_by_hand():
    assert mce([0.1, 0.1, 0.9, 0.95], [0, 0, 0, 1], bins=2) == pytest.approx(0.425)


def test_the_largest_gap_leaves_empty_bins_out():
    assert mce([0.9, 0.9], [1, 0], bins=15) == pytest.approx(0.4)


@pytest.mark.parametrize("equal", ["width", "mass"])
def test_class_by_class_is_the_mean_of_one_against_the_rest(equal):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 300)
    labels = rng.integers(4, size=300)
    each = [ece(probs[:, c].copy(), labels == c, bins=7, equal=equal) for c in range(4)]
    found = classwise_ece(torch.from_numpy(probs), torch.from_numpy(labels), bins=7, equal=equal)
    assert found == pytest.approx(np.mean(each), rel=1e-12)


def test_class_by_class_sees_what_the_largest_probability_hides():
    """Always sure by 0.6 and right in 0.6 of all samples; but classes 1 and 2 are mixed up."""
    probs = np.tile([0.6, 0.4, 0.0], (100, 1))
    labels = np.array([0] * 60 + [2] * 40)
    assert ece(probs.max(1), labels == 0) == pytest.approx(0)
    assert classwise_ece(probs, labels) == pytest.approx((0 + 0.4 + 0.4) / 3)


def test_the_folded_normal_is_that_of_a_simulation():
    sure, right = samples(300)
    gaps, counts = by_mass(sure, right, 6)
    shares = np.array([right[rows].mean() for rows in np.array_split(np.argsort(sure), 6)])
    rng = np.random.default_rng(1)
    spread = np.sqrt(shares * (1 - shares) / counts)
    drawn = np.abs(gaps + spread * rng.standard_normal((200_000, 6))).mean(0)
    expected = counts @ (2 * np.abs(gaps) - drawn) / 300
    assert debiased_ece(sure, right, bins=6) == pytest.approx(expected, abs=3e-4)


def test_the_square_is_unbiased():
    """Over draws of calibrated samples its mean is 0, and that of the plain one is not."""
    rng = np.random.default_rng(0)
    squares, plain = [], []
    for _ in range(400):
        sure = rng.uniform(0.2, 1, 200)
        right = rng.uniform(size=200) < sure
        root = debiased_ece(sure, right, bins=10, norm=2)
        squares.append(math.copysign(root**2, root))
        plain.append(ece(sure, right, bins=10, equal="mass") ** 2)
    error = np.std(squares) / math.sqrt(400)
    assert abs(np.mean(squares)) < 4 * error
    assert np.mean(plain) > 20 * error


def test_the_square_is_unbiased_where_confidences_of_a_bin_differ():
    """One bin of all confidences: a(1 - a)/(n - 1) would take off half as much again."""
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(800):
        sure = rng.uniform(0, 1, 60)
        root = debiased_ece(sure, rng.uniform(size=60) < sure, bins=1, norm=2)
        squares.append(math.copysign(root**2, root))
    error = np.std(squares) / math.sqrt(800)
    assert abs(np.mean(squares)) < 4 * error
    assert error < 2e-4  # what is taken off: 2.8e-3, and 4.2e-3


def test_the_bias_is_smaller_than_that_of_the_plain_error():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(200):
        sure = rng.uniform(0.5, 1, 300)
        right = rng.uniform(size=300) < sure - 0.05  # a gap of 0.05 everywhere
        found.append((ece(sure, right, equal="mass"), debiased_ece(sure, right)))
    plain, debiased = np.mean(found, axis=0)
    assert plain - 0.05 > 0.02
    assert abs(debiased - 0.05) < 0.6 * (plain - 0.05)


def test_without_chance_nothing_is_taken_off():
    sure = np.repeat([0.7, 0.9], 50)
    assert debiased_ece(sure, np.ones(100), bins=2) == pytest.approx(0.2)
    assert debiased_ece(sure, np.ones(100), bins=2, norm=2) == pytest.approx(math.sqrt(0.05))


def test_bins_of_one_sample_have_no_variance():
    with pytest.raises(NescioError, match="5 bin.s. hold one sample"):
        debiased_ece(np.linspace(0.1, 0.9, 5), np.ones(5), bins=5, norm=2)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bounds_are_those_of_clopper_and_pearson(level):
    from scipy.stats import binomtest

    found = reliability(*samples(200), bins=12)
    low, high = found.bounds(level)
    for k, count in enumerate(found.count):
        if count == 0:
            assert np.isnan([low[k], high[k]]).all()
            continue
        hits = round(found.accuracy[k] * count)
        exact = binomtest(hits, int(count)).proportion_ci(level, method="exact")
        assert low[k] == pytest.approx(exact.low)
        assert high[k] == pytest.approx(exact.high)


def test_expected_ranges_hold_calibrated_accuracies_as_often_as_they_say():
    rng = np.random.default_rng(0)
    in_dist = total = 0
    for _ in range(100):
        sure = rng.uniform(0, 1, 1000)
        found = reliability(sure, rng.uniform(size=1000) < sure, bins=10)
        low, high = found.expected(0.9)
        in_dist += ((found.accuracy >= low) & (found.accuracy <= high)).sum()
        total += 10
    assert 0.9 <= in_dist / total < 0.96


def test_an_empty_bin_has_no_range():
    found = reliability([0.9, 0.9], [1, 0], bins=2)
    assert np.isnan(found.expected()[0]).tolist() == [True, False]
    assert found.expected()[1][1] == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ece([0.5], [1], equal="size"), "`equal` must be 'width' or 'mass'"),
        (lambda: ece([math.nan], [1], equal="mass"), "NaN in 1 of 1"),
        (lambda: mce([0.5], [1], bins=0), "`bins` must be a whole number"),
        (lambda: debiased_ece([0.5], [1], norm=3), "`norm` must be 1 or 2"),
        (lambda: classwise_ece([[0.5, 0.4]], [1]), "sum to 1"),
        (lambda: classwise_ece([[0.5, 0.5]], [2]), r"0\.\.1"),
        (lambda: reliability([0.5], [1]).bounds(1.0), "`level` must be between"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(NescioError, match=message):
        call()
