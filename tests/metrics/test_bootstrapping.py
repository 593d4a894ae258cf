"""Intervals of calibration errors: what they hold, how often, and by which draws."""

import numpy as np
import pytest
import torch

from nescio.errors import NescioError
from nescio.metrics import bootstrap_metric, brier_decomposition, debiased_ece, ece, smooth_ece
from nescio.metrics.resampling import INSIDE, draws


def cases(count=400, gap=0.1, seed=0):
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.5, 1, count)
    return sure, rng.uniform(size=count) < sure - gap


def test_the_interval_is_the_basic_one_of_the_same_draws():
    sure, right = cases()
    found = bootstrap_metric(ece, sure, right, resamples=50, seed=3, bins=5)
    (rows,) = [np.concatenate(list(draws(400, 50, 3, INSIDE, block=400)))]
    again = [ece(sure[r], right[r], bins=5) for r in rows]
    low, high = np.quantile(again, [0.025, 0.975])
    value = ece(sure, right, bins=5)
    assert found.value == value
    assert found.low == pytest.approx(2 * value - high)
    assert found.high == pytest.approx(2 * value - low)


@pytest.mark.parametrize("metric", [ece, debiased_ece])
def test_a_known_gap_is_held_about_as_often_as_promised(metric):
    """The gap is 0.1 everywhere. 50 sets of cases: 95 % less four standard errors is 82 %."""
    held, options = 0, {"resamples": 80, "bins": 10, "equal": "mass"}
    for seed in range(50):
        unbiased = metric is debiased_ece
        found = bootstrap_metric(metric, *cases(seed=seed), unbiased=unbiased, **options)
        held += found.low <= 0.1 <= found.high
    assert held / 50 >= 0.82


def test_tensors_parts_and_smooth_errors():
    sure, right = (torch.as_tensor(part) for part in cases())
    smooth = bootstrap_metric(smooth_ece, sure, right, resamples=20)
    assert smooth.low < smooth.value < smooth.high
    probs = torch.stack([sure, 1 - sure], -1)
    part = bootstrap_metric(
        brier_decomposition, probs, 1 - right.long(), part="reliability", resamples=20
    )
    assert part.value == brier_decomposition(probs, 1 - right.long()).reliability


def test_bad_input_is_refused():
    with pytest.raises(NescioError, match="as many cases"):
        bootstrap_metric(ece, [0.5, 0.5], [1])
    with pytest.raises(NescioError, match="one row a case"):
        bootstrap_metric(ece, [], [])
    with pytest.raises(NescioError, match="`resamples`"):
        bootstrap_metric(ece, [0.5], [1], resamples=1)
