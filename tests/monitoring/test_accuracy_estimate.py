"""The accuracy without labels: the mean probability, with an interval that holds if calibrated."""

import math

import numpy as np
import pytest

import nescio
from nescio.monitoring import estimated_accuracy
from nescio.monitoring.betting_sums import SHARES, STAKES


def test_the_interval_is_that_of_the_martingale():
    p = np.random.default_rng(0).uniform(0.8, 1, 300)
    now = estimated_accuracy().update(p)
    assert now.accuracy == pytest.approx(p.mean())
    low, high = now.interval
    for bound, sign in ((low, 1), (high, -1)):
        errors, capital = (1 - bound) * 300, 0.0
        for share, stake in zip(SHARES, sign * 2 * STAKES, strict=True):
            moments = np.log(p + (1 - p) * math.exp(stake)).sum()
            capital += share * math.exp(stake * errors - moments)
        assert capital == pytest.approx(1 / 0.025, rel=1e-5)


def test_it_holds_for_calibrated_probabilities_and_not_under_drift():
    rng = np.random.default_rng(1)
    misses, drifted = 0, 0
    for _ in range(100):
        p = 1 - rng.beta(0.5, 20, 2000)
        low, high = estimated_accuracy().update(p).interval
        misses += not low <= (rng.random(2000) < p).mean() <= high
        drifted += not low <= (rng.random(2000) < p - 0.1).mean() <= high
    assert misses <= 10
    assert drifted == 100


def test_the_cut_changes_no_bit():
    p = np.random.default_rng(2).uniform(0.9, 1, 1000)
    whole = estimated_accuracy().update(p)
    parts = estimated_accuracy().update(p[:1]).update(p[1:17]).update(p[17:])
    assert parts.interval == whole.interval
    assert (parts.sums.upper == whole.sums.upper).all()


def test_edges():
    now = estimated_accuracy().update([])
    assert now.interval == (0.0, 1.0)
    assert math.isnan(now.accuracy)
    assert "no answers" in repr(now)
    assert "if calibrated" in repr(now.update(0.9))
    for wrong in ([1.2], [math.nan]):
        with pytest.raises(nescio.NescioError):
            now.update(wrong)
    with pytest.raises(nescio.NescioError):
        estimated_accuracy(confidence=1.0)
