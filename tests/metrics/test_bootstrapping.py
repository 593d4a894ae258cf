"""Intervals of calibration errors: what they hold, how often, and by which draws."""

import numpy as np
import pytest
import torch

from nescio import metrics
from nescio.core import NescioError
from nescio.metrics import (
    bootstrap_metric,
    brier_decomposition,
    classwise_ece,
    debiased_ece,
    ece,
    mce,
    smooth_ece,
)
from nescio.metrics.bootstrapping import _truth
from nescio.metrics.resampling import IN_DIST, draws


def samples(count=400, gap=0.1, seed=0):
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.5, 1, count)
    return sure, rng.uniform(size=count) < sure - gap


def test_the_interval_is_the_basic_one_of_the_same_draws():
    sure, right = samples()
    found = bootstrap_metric(ece, sure, right, resamples=50, seed=3, bins=5)
    (rows,) = [np.concatenate(list(draws(400, 50, 3, IN_DIST, block=400)))]
    again = [ece(sure[r], right[r], bins=5) for r in rows]
    low, high = np.quantile(again, [0.025, 0.975])
    value = ece(sure, right, bins=5)
    assert found.value == value
    assert found.low == pytest.approx(2 * value - high)
    assert found.high == pytest.approx(2 * value - low)


@pytest.mark.parametrize(("metric", "more"), [(ece, {}), (debiased_ece, {"norm": 2})])
def test_a_known_gap_is_held_about_as_often_as_guaranteed(metric, more):
    """The gap is 0.1 everywhere. 50 sets of samples: 95 % less four standard errors is 82 %."""
    held, options = 0, {"resamples": 80, "bins": 10, "equal": "mass"}
    for seed in range(50):
        found = bootstrap_metric(metric, *samples(seed=seed), **options, **more)
        held += found.low <= 0.1 <= found.high
    assert held / 50 >= 0.82


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (ece, {}),
        (mce, {}),
        (debiased_ece, {"norm": 2}),
        (classwise_ece, {}),
        (brier_decomposition, {"part": "reliability"}),
    ],
)
def test_calibrated_answers_are_rarely_called_miscalibrated(metric, options):
    """In 2.5 % of draws: 7 or more of 50 have a probability of 3e-4."""
    found = 0
    for seed in range(50):
        sure, right = samples(300, gap=0.0, seed=seed)
        if metric in (classwise_ece, brier_decomposition):
            sure, right = np.stack([1 - sure, sure], 1), right.astype(int)
        found += bootstrap_metric(metric, sure, right, resamples=40, **options).low > 0
    assert found <= 6


@pytest.mark.parametrize(
    ("metric", "options"), [(ece, {}), (debiased_ece, {"norm": 2}), (smooth_ece, {})]
)
@pytest.mark.parametrize("resamples", [5, 50])
def test_a_large_error_is_beyond_chance_with_any_number_of_resamples(metric, options, resamples):
    found = bootstrap_metric(metric, *samples(gap=0.2), resamples=resamples, **options)
    assert 0.05 < found.low < 0.2
    assert found == bootstrap_metric(metric, *samples(gap=0.2), resamples=resamples, **options)


@pytest.mark.parametrize(
    ("metric", "options"), [(ece, {}), (mce, {}), (debiased_ece, {"norm": 2}), (smooth_ece, {})]
)
def test_no_interval_of_a_calibration_error_goes_below_0(metric, options):
    for seed in range(20):
        found = bootstrap_metric(metric, *samples(300, gap=0.0, seed=seed), resamples=30, **options)
        assert 0 <= found.low <= found.high


def test_the_interval_that_does_not_hold_is_refused():
    with pytest.raises(NescioError, match="no interval of debiased_ece with norm=1"):
        bootstrap_metric(debiased_ece, *samples(), resamples=20)


def test_an_error_within_chance_has_a_lower_bound_of_0():
    """One bin of 20 samples, 0.5 sure and 14 right: 12 % of fair coins are as far off."""
    sure, right = np.full(20, 0.5), np.arange(20) < 14
    found = bootstrap_metric(ece, sure, right, resamples=200, level=0.5)
    assert found.low > 0  # 12 % is rarer than 25 %
    assert bootstrap_metric(ece, sure, right, resamples=200, level=0.9).low == 0


def test_truths_are_drawn_by_the_probabilities():
    probs = np.tile(np.float32([0.5, 0.0, 0.2, 0.3, 0.0]), (40_000, 1))
    found = (
        np.bincount(_truth(probs, np.zeros(40_000), None, np.random.default_rng(0)), minlength=5)
        / 40_000
    )
    np.testing.assert_allclose(found, probs[0], atol=4 * 0.0025)
    assert found[[1, 4]].tolist() == [0, 0]
    right = _truth(np.full(40_000, 0.2), np.zeros(40_000), None, np.random.default_rng(0))
    assert right.mean() == pytest.approx(0.2, abs=4 * 0.002)


def test_half_precision_is_widened():
    sure, right = (torch.as_tensor(part) for part in samples())
    narrow = bootstrap_metric(ece, sure.bfloat16(), right, resamples=10)
    assert narrow == bootstrap_metric(ece, sure.bfloat16().float(), right, resamples=10)


def test_tensors_parts_and_smooth_errors():
    sure, right = (torch.as_tensor(part) for part in samples())
    smooth = bootstrap_metric(smooth_ece, sure, right, resamples=20)
    assert smooth.low < smooth.value < smooth.high
    probs = torch.stack([sure, 1 - sure], -1)
    part = bootstrap_metric(
        brier_decomposition, probs, 1 - right.long(), part="reliability", resamples=20
    )
    assert part.value == brier_decomposition(probs, 1 - right.long()).reliability


def test_bad_input_is_refused():
    with pytest.raises(NescioError, match="as many samples"):
        bootstrap_metric(ece, [0.5, 0.5], [1])
    with pytest.raises(NescioError, match="one row per sample"):
        bootstrap_metric(ece, [], [])
    with pytest.raises(NescioError, match="`resamples`"):
        bootstrap_metric(ece, [0.5], [1], resamples=1)


def label_maps(seed, images=30, quality=0.8):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=(images, 4, 5))
    truth[:, 0] = 255
    truth[1] = 255  # an image without labels
    share = quality + 0.2 * rng.random((images, 1, 1))
    probs = np.full((*truth.shape, 3), 0.1)
    label = np.where(rng.random(truth.shape) < share, truth % 3, (truth + 1) % 3)
    np.put_along_axis(probs, label[..., None], 0.8, -1)
    return probs, truth


def test_a_paired_test_of_any_metric_draws_images():
    probs, truth = label_maps(0)
    worse, _ = label_maps(0, quality=0.5)
    found = metrics.metric_test(
        metrics.accuracy, (probs, truth), (worse, truth), ignore_index=255, resamples=100
    )
    accuracy = [metrics.accuracy(one, truth, ignore_index=255) for one in (probs, worse)]
    assert found.value == pytest.approx(accuracy[0] - accuracy[1])
    assert 0 < found.low < found.value < found.high
    assert found.p == pytest.approx(2 / 101)
    gap = metrics.bootstrap_metric(
        lambda a, y, b, **some: metrics.accuracy(a, y, **some) - metrics.accuracy(b, y, **some),
        probs, truth, worse, ignore_index=255, resamples=100, unbiased=False,
    )  # fmt: skip
    assert (2 * gap.value - gap.low, 2 * gap.value - gap.high) == pytest.approx(
        (found.high, found.low)
    )  # the same draws


def test_a_paired_test_takes_other_truths_and_refuses_what_does_not_fit():
    probs, truth = label_maps(0)
    confidence, right = probs.max(-1), probs.argmax(-1) == truth
    marks = metrics.mark_ignored(right, truth, ignore_index=255)
    pair = (confidence, marks)
    found = metrics.metric_test(metrics.ece, pair, pair, ignore_index=255, resamples=10)
    assert (found.value, found.p) == (0, 1)
    with pytest.raises(NescioError, match="one row per sample"):
        metrics.metric_test(metrics.ece, pair, (confidence[1:], marks[1:]), ignore_index=255)
    empty = (confidence[1:2], marks[1:2])
    with pytest.raises(NescioError, match="no sample has a label"):
        metrics.metric_test(metrics.ece, empty, empty, ignore_index=255)
