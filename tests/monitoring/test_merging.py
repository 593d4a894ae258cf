"""Shards are merged by the mean, and only where they share no calibration scores."""

import math
from dataclasses import replace

import numpy as np
import pytest

from nescio.core import NescioError
from nescio.monitoring import merge, monitor


def shards(count, rng, *, drift=0.0, length=500, **options):
    scores = rng.normal(size=100 * count)
    return [
        monitor(scores, shard=i, shards=count, **options).update(rng.normal(drift, 1, length))
        for i in range(count)
    ]


def test_the_mean_of_martingales():
    found = shards(3, np.random.default_rng(0), length=40)
    merged = merge(found)
    mean = np.mean([math.exp(one.log_martingale) for one in found])
    assert merged.log_martingale == pytest.approx(math.log(mean), abs=1e-12)
    assert merged.count == 120
    assert not merged.alarm
    assert merge(found[:1]).log_martingale == found[0].log_martingale
    assert merge(shards(3, np.random.default_rng(0), drift=3.0)).alarm


def test_a_huge_martingale_does_not_overflow():
    one, two = shards(2, np.random.default_rng(0), length=10)
    merged = merge([replace(one, log_martingale=2000.0), two])
    assert merged.log_martingale == pytest.approx(2000 - math.log(2))
    assert merged.alarm


def test_parts_of_the_calibration_scores_are_apart():
    scores = np.arange(400.0)
    found = [monitor(scores, shard=i, shards=4) for i in range(4)]
    whole = monitor(scores)
    assert np.array_equal(sum(one.counts for one in found), whole.counts)
    assert all(np.array_equal(one.edges, whole.edges) for one in found)
    stream = np.random.default_rng(0).random(200)
    assert len({one.update(stream).log_martingale for one in found}) == 4


def test_merged_alarms_stay_bounded_when_watched_often():
    from scipy.stats import binomtest

    rng = np.random.default_rng(5)
    alarms, trials = 0, 100
    for seed in range(trials):
        scores = rng.normal(size=120)
        found = [monitor(scores, shard=i, shards=3, seed=seed, false_alarm=0.05) for i in range(3)]
        alarmed = False
        for _ in range(5):
            found = [one.update(rng.normal(size=60)) for one in found]
            alarmed |= merge(found).alarm
        alarms += alarmed
    assert binomtest(alarms, trials, 0.05, alternative="greater").pvalue > 1e-3


def test_monitors_with_scores_in_common_are_refused():
    scores = np.arange(200.0)
    one = monitor(scores, shard=0, shards=2)
    for other in (one, monitor(scores), monitor(scores, shard=1, shards=2, seed=1)):
        with pytest.raises(NescioError, match="count the same calibration scores"):
            merge([one, other])
    with pytest.raises(NescioError, match="different bounds, 0.01 and 0.1"):
        merge([one, monitor(scores, shard=1, shards=2, false_alarm=0.1)])
    with pytest.raises(NescioError, match="one or more monitors"):
        merge([])
