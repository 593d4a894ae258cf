"""Intersection over union against sets of pixels, counted one by one."""

import numpy as np
import pytest
import torch

from nescio import NescioError, metrics


def by_sets(predicted, labels, classes, ignored):
    found = []
    for k in range(classes):
        one = {
            p
            for p, (a, b) in enumerate(zip(predicted, labels, strict=True))
            if b != ignored and a == k
        }
        two = {p for p, b in enumerate(labels) if b == k}
        found.append(len(one & two) / len(one | two) if one | two else np.nan)
    return found


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_iou_is_that_of_sets_of_pixels(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (6, 5, 7)).astype(kind)
    labels[rng.random(labels.shape) < 0.2] = 255
    predicted = rng.integers(0, 4, labels.shape).astype(kind)
    found = metrics.iou(predicted, labels, classes=5, ignore_index=255)
    truth = by_sets(predicted.ravel().tolist(), labels.ravel().tolist(), 5, 255)
    np.testing.assert_allclose(found.by_class, truth)
    assert found.mean == pytest.approx(np.nanmean(truth))
    assert found.absent == (4,)
    assert found.confusion.sum() == (labels != 255).sum()


def test_probabilities_and_labels_give_the_same():
    probs = torch.rand(3, 4, 5, 6).softmax(-1)
    labels = torch.randint(6, (3, 4, 5))
    one, two = (metrics.mean_iou(p, labels) for p in (probs, probs.argmax(-1)))
    assert one == two


def test_sklearn_agrees():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    labels, predicted = rng.integers(0, 5, (2, 400))
    truth = sklearn.jaccard_score(labels, predicted, average=None)
    np.testing.assert_allclose(metrics.iou(predicted, labels).by_class, truth)
    assert metrics.mean_iou(predicted, labels) == pytest.approx(truth.mean())


def test_a_class_that_is_absent_and_one_that_is_only_predicted():
    found = metrics.iou([0, 0, 2], [0, 0, 0], classes=4)
    np.testing.assert_array_equal(found.by_class, [2 / 3, np.nan, 0, np.nan])
    assert found.absent == (1, 2, 3)
    assert found.mean == pytest.approx(1 / 3)


def test_intervals_draw_images():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, (20, 6, 6))
    right = rng.random(20)[:, None, None] > rng.random((20, 6, 6))
    predicted = np.where(right, labels, (labels + 1) % 3)
    found = metrics.bootstrap_metric(metrics.mean_iou, predicted, labels, resamples=200)
    pixels = metrics.bootstrap_metric(
        metrics.mean_iou, predicted.ravel(), labels.ravel(), resamples=200
    )
    assert found.low < found.value == metrics.mean_iou(predicted, labels) < found.high
    assert found.high - found.low > 1.5 * (pixels.high - pixels.low)


@pytest.mark.parametrize(
    ("predicted", "labels", "options", "said"),
    [
        ([0, 3], [0, 1], {"classes": 3}, r"classes from 0\.\.2, got 0\.\.3"),
        ([0, 1], [0, -1], {}, "classes from 0, got -1"),
        ([0, 1], [255, 255], {"ignore_index": 255}, "all 2 entries"),
        ([0.5, 1.0], [0, 1], {}, "must be integers"),
        ([0, 1, 1], [0, 1], {}, "same samples"),
        ([0, 1], [0, 1], {"classes": 2, "ignore_index": 1}, "is a class"),
        ([], [], {}, "predicted|labels"),
    ],
)
def test_what_cannot_be_compared_is_refused(predicted, labels, options, said):
    with pytest.raises(NescioError, match=said):
        metrics.iou(predicted, labels, **options)
