"""Class-probability metrics against closed forms and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss

from nescio.core import NescioError
from nescio.core.registry import metrics
from nescio.metrics import accuracy, brier, mean_max_confidence, nll
from nescio.metrics import classification as classification_module

LABELLED = (accuracy, brier, nll)


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200)


def test_agrees_with_scikit_learn_and_by_hand(sample):
    probs, labels = sample
    assert accuracy(probs, labels) == accuracy_score(labels, probs.argmax(1))
    assert nll(probs, labels) == pytest.approx(log_loss(labels, probs), rel=1e-12)
    expected = np.mean(np.sum((probs - np.eye(4)[labels]) ** 2, axis=1))
    assert brier(probs, labels) == pytest.approx(expected, rel=1e-12)
    assert mean_max_confidence(probs) == pytest.approx(np.mean(probs.max(1)), rel=1e-12)


def test_flat_answers():
    flat = np.full((3, 5), 0.2)
    assert mean_max_confidence(flat) == pytest.approx(0.2)
    assert nll(flat, [0, 1, 4]) == pytest.approx(np.log(5))
    assert brier(flat, [0, 1, 4]) == pytest.approx(1 - 1 / 5)
    assert accuracy(flat, [0, 1, 0]) == pytest.approx(2 / 3)  # the first class wins a tie


def test_certain_answers():
    certain = np.eye(3)
    right, wrong = [0, 1, 2], [1, 2, 0]
    assert (accuracy(certain, right), brier(certain, right), nll(certain, right)) == (1, 0, 0)
    assert (accuracy(certain, wrong), brier(certain, wrong)) == (0, 2)
    assert nll(certain, wrong) == np.inf
    assert mean_max_confidence(certain) == 1


def test_brier_keeps_small_distances():
    probs = np.array([[1 - 1e-9, 1e-9]])
    assert brier(probs, [0]) == pytest.approx(2e-18, rel=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_torch_gives_the_same_python_float(sample, kind):
    probs, labels = sample
    given, wanted = torch.tensor(probs, dtype=kind, requires_grad=True), torch.tensor(labels)
    for metric in LABELLED:
        assert type(metric(given, wanted)) is float
        assert metric(given, wanted) == pytest.approx(metric(probs, labels), rel=1e-6)
    assert mean_max_confidence(given) == pytest.approx(mean_max_confidence(probs), rel=1e-6)


def test_blocks_change_nothing_and_inputs_are_left_alone(sample, monkeypatch):
    probs, labels = sample
    before = probs.copy()
    whole = [metric(probs, labels) for metric in LABELLED]
    monkeypatch.setattr(classification_module, "BLOCK", 28)
    assert [metric(probs, labels) for metric in LABELLED] == pytest.approx(whole, abs=1e-14)
    assert np.array_equal(probs, before)


def test_a_bad_row_is_named_across_blocks(sample, monkeypatch):
    probs, labels = sample
    monkeypatch.setattr(classification_module, "BLOCK", 28)
    probs[123] *= 0.9
    with pytest.raises(NescioError, match=r"row 123 sums to 0\.9"):
        nll(probs, labels)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[np.nan, 1.0]], "NaN or infinity in row 0"),
        ([[0.5, 0.5], [np.inf, 0.0]], "NaN or infinity in row 1"),
        ([[2.0, -1.0]], r"must be in \[0, 1\], got -1 to 2; if these are logits, apply a softmax"),
        ([[0.2, 0.2]], "row 0 sums to 0.4"),
        ([0.5, 0.5], "`probs` must be of 2 axes"),
        (np.zeros((0, 3)), "`probs` is empty"),
        ([[1.0]], "stack 1 - p and p"),
    ],
)
def test_bad_probabilities_are_refused(probs, message):
    labels = [0] * max(1, len(probs))
    with pytest.raises(NescioError, match=message):
        mean_max_confidence(probs)
    for metric in LABELLED:
        with pytest.raises(NescioError, match=message):
            metric(probs, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.0, 1.0], "`labels` must be integers, got float64"),
        ([True, False], "`labels` must be integers, got bool"),
        ([0], "not of the same samples"),
        ([0, 2], r"must be in 0..1, the columns of `probs`, got 0..2"),
        ([-1, 0], "got -1..0"),
        ([[0], [1]], "`labels` must be one-dimensional"),
        ([], "`labels` is empty"),
    ],
)
def test_bad_labels_are_refused(labels, message):
    for metric in LABELLED:
        with pytest.raises(NescioError, match=message):
            metric([[0.5, 0.5], [0.1, 0.9]], labels)


def test_the_metrics_are_registered():
    assert {"accuracy", "brier", "mean_max_confidence", "nll"} <= set(metrics)
