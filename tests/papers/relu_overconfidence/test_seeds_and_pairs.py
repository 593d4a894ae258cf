"""Means over seeds and pairs of networks, against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from nescio.metrics import Interval
from nescio_papers.relu_overconfidence.seeds_and_pairs import (
    AUROC,
    FPR,
    MMC,
    accepted,
    differences,
    errors,
    over_seeds,
)

RNG = np.random.default_rng(0)


def test_an_interval_over_seeds_has_the_part_of_the_seeds_and_of_the_images():
    values = (0.4, 0.5, 0.6)
    found = over_seeds([Interval(v, v - 0.03, v + 0.04) for v in values])
    half = stats.t.interval(0.95, 2, scale=stats.sem(values))[1]
    assert found.value == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5 - math.hypot(half, 0.03))
    assert found.high == pytest.approx(0.5 + math.hypot(half, 0.04))
    assert over_seeds([Interval(0.4, 0.3, 0.6)]) == Interval(0.4, pytest.approx(0.3), 0.6)
    assert over_seeds([Interval(0.9, 0.8, 0.9), Interval(0.1, 0.0, 0.2)]).high == 1


def test_networks_are_paired_input_by_input():
    near, far = RNG.normal(-2, 1, 200), RNG.normal(1, 1, 100)
    other = far + 0.5 + RNG.normal(0, 0.01, 100)  # always a little less confident
    found = differences((near, other), (near, far))
    gap = expit(-other) - expit(-far)
    half = stats.t.interval(0.95, 99, scale=stats.sem(gap))[1]
    assert found[MMC].value == pytest.approx(gap.mean())
    assert found[MMC].high - found[MMC].low == pytest.approx(2 * half)
    assert found[AUROC].low > 0  # unpaired, this would be hidden by the spread of the inputs
    share = accepted(near, other).mean() - accepted(near, far).mean()
    assert found[FPR].value == pytest.approx(share)
    fewer = differences((near, other[:60]), (near, far), same=False)
    assert AUROC not in fewer
    assert fewer[MMC].value == pytest.approx(expit(-other[:60]).mean() - expit(-far).mean())


def test_a_threshold_keeps_95_of_100_test_images():
    near = -np.arange(100.0)  # log-odds 0 to 99
    assert accepted(near, near).sum() == 95
    assert accepted(near, np.array([-4.9, -5.0])).tolist() == [False, True]


def test_errors_are_counted_on_the_same_images():
    first, second = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 0, 1], bool)
    gap, counts = errors(first, second)
    assert counts == {"both": 1, "first": 2, "second": 1, "neither": 1}
    assert gap.value == pytest.approx(0.2)
    assert -1 <= gap.low < 0.2 < gap.high <= 1
