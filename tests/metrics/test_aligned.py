"""Maps count pixel by pixel and ignored labels do not count, in every metric with a truth."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, average_precision_score, brier_score_loss, log_loss

from nescio import NescioError, metrics
from nescio.metrics import mark_ignored

SHAPE, CLASSES, IGNORED = (6, 5, 7), 4, 255
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(CLASSES), SHAPE)
LABELS = RNG.integers(CLASSES, size=SHAPE)
LABELS[RNG.random(SHAPE) < 0.3] = IGNORED
LABELS[2] = IGNORED
COUNTS = LABELS != IGNORED
CONFIDENCE = PROBS.max(-1)
CORRECT = mark_ignored(PROBS.argmax(-1) == LABELS, LABELS, ignore_index=IGNORED)
WRONG = mark_ignored(PROBS.argmax(-1) != LABELS, LABELS, ignore_index=IGNORED)
NAMES = {
    "labels": "accuracy brier nll classwise_ece brier_decomposition nll_decomposition",
    "correct": "ece mce debiased_ece smooth_ece reliability",
    "wrong": "ap_error ap_success aurc augrc excess_aurc risk_coverage",
}
GIVEN = {
    "labels": (PROBS, LABELS),
    "correct": (CONFIDENCE, CORRECT),
    "wrong": (1 - CONFIDENCE, WRONG),
}
ALL = {name: GIVEN[kind] for kind, names in NAMES.items() for name in names.split()}


def same(first, second):
    for a, b in zip(_parts(first), _parts(second), strict=True):
        np.testing.assert_array_equal(a, b)


def _parts(value):
    return [value] if isinstance(value, float) else list(vars(value).values())


def test_every_metric_with_a_truth_is_here():
    """One that is new, and knows an ignore index or not, must be looked at."""
    import inspect

    known = {
        name
        for name in dir(metrics)
        if callable(one := getattr(metrics, name))
        and "ignore_index" in getattr(inspect.signature(one), "parameters", {})
    }
    others = {"bootstrap_selective", "selective_test", "mark_ignored", "iou", "mean_iou"}
    assert known - others == set(ALL)  # the others have tests of their own
    of_groups = {"excess_test", "overconfidence_test"}  # of samples in two groups, never of pixels
    for name in set(dir(metrics)) - of_groups:
        one = getattr(metrics, name)
        if inspect.isfunction(one) and {"labels", "correct", "wrong"} & set(
            inspect.signature(one).parameters
        ):
            assert "ignore_index" in inspect.signature(one).parameters, name


@pytest.mark.parametrize("name", ALL)
def test_a_metric_of_maps_is_that_of_the_samples_that_count(name):
    metric, (values, truth) = getattr(metrics, name), ALL[name]
    found = metric(values, truth, ignore_index=IGNORED)
    same(found, metric(values[COUNTS], truth[COUNTS]))
    tensors = torch.from_numpy(values), torch.from_numpy(truth)
    same(metric(*tensors, ignore_index=IGNORED), found)


@pytest.mark.parametrize("name", ALL)
def test_a_metric_of_maps_without_an_ignore_index_is_that_of_all_pixels(name):
    metric, (values, truth) = getattr(metrics, name), ALL[name]
    some = np.where(COUNTS, truth, 0)
    flat = values.reshape(-1, CLASSES) if values.ndim == 4 else values.ravel()
    same(metric(values, some), metric(flat, some.ravel()))


@pytest.mark.parametrize("name", ALL)
def test_bad_ignore_indices_are_refused(name):
    metric, (values, truth) = getattr(metrics, name), ALL[name]
    with pytest.raises(NescioError, match="ignore_index=1 is a class"):
        metric(values, truth, ignore_index=1)
    with pytest.raises(NescioError, match="all 210 entries of `.*` are ignored"):
        metric(values, np.full_like(truth, IGNORED), ignore_index=IGNORED)
    with pytest.raises(NescioError):  # 255 is not a class
        metric(values, truth)
    with pytest.raises(NescioError, match="axes|same samples"):
        metric(values, truth[:, 0], ignore_index=IGNORED)


def test_metrics_are_those_of_scikit_learn_after_dropping():
    probs, labels = PROBS[COUNTS], LABELS[COUNTS]
    wrong, score = probs.argmax(1) != labels, 1 - probs.max(1)
    expected = {
        "accuracy": accuracy_score(labels, probs.argmax(1)),
        "nll": log_loss(labels, probs, labels=range(CLASSES)),
        "brier": brier_score_loss(labels, probs, labels=range(CLASSES), scale_by_half=False),
        "ap_error": average_precision_score(wrong, score),
    }
    for name, value in expected.items():
        found = getattr(metrics, name)(*ALL[name], ignore_index=IGNORED)
        assert found == pytest.approx(value, abs=1e-12), name


def test_a_bootstrap_draws_images_and_keeps_what_is_ignored():
    found = metrics.bootstrap_metric(
        metrics.accuracy, PROBS, LABELS, resamples=200, ignore_index=IGNORED
    )
    assert found.value == metrics.accuracy(PROBS, LABELS, ignore_index=IGNORED)
    assert found.low < found.value < found.high
    sure = np.full(SHAPE, 0.999)
    flags = np.where(COUNTS, np.arange(210).reshape(SHAPE) % 2, IGNORED)
    error = metrics.bootstrap_metric(metrics.ece, sure, flags, resamples=50, ignore_index=IGNORED)
    assert error.low > 0.3
    scores = (1 - CONFIDENCE).ravel()
    dropped = metrics.bootstrap_selective(scores[COUNTS.ravel()], WRONG[COUNTS], resamples=20)
    kept = metrics.bootstrap_selective(scores, WRONG.ravel(), resamples=20, ignore_index=IGNORED)
    assert dropped == kept
    images = metrics.bootstrap_selective(1 - CONFIDENCE, WRONG, resamples=20, ignore_index=IGNORED)
    assert [one.value for one in images.values()] == [one.value for one in kept.values()]


def test_flags_and_labels_must_agree():
    with pytest.raises(NescioError, match="same samples"):
        mark_ignored([True], [0, 1], ignore_index=255)
    wide = mark_ignored([True, False], [0, 10**6], ignore_index=10**6)
    assert wide.tolist() == [1, 10**6]


def test_the_mean_confidence_of_maps_is_that_of_pixels():
    found = metrics.mean_max_confidence(PROBS)
    assert found == pytest.approx(CONFIDENCE.mean(), abs=1e-12)


def test_a_bootstrap_draws_only_samples_with_a_label():
    labels = np.where(np.arange(len(LABELS))[:, None, None] < 1, LABELS, IGNORED)
    found = metrics.bootstrap_metric(
        metrics.accuracy, PROBS, labels, resamples=50, ignore_index=IGNORED
    )
    assert found.low == found.value == found.high  # one image: nothing to draw


def test_flags_that_cannot_hold_the_ignore_index_are_refused():
    flags = PROBS.argmax(-1) == LABELS
    with pytest.raises(NescioError, match="mark_ignored"):
        metrics.ece(PROBS.max(-1), flags, ignore_index=IGNORED)
    with pytest.raises(NescioError, match="mark_ignored"):
        metrics.aurc(PROBS.max(-1), ~flags, ignore_index=IGNORED)
