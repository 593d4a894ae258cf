"""Likely label errors: the list of confident learning, planted errors, ranks."""

import pytest
import torch
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.evaluation import find_label_errors
from nescio.evaluation.label_errors import confident_disagreement, label_scores

SAMPLES, CLASSES = 600, 4


@pytest.fixture
def clean():
    """Labels, features around a center of each class, and a network that is mostly right."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=draws)
    centers = 3 * torch.eye(CLASSES)
    features = centers[labels] + 0.6 * torch.randn(SAMPLES, CLASSES, generator=draws)
    return labels, features, (2 * features.double()).log_softmax(-1)


def flipped(labels, rows):
    changed = labels.clone()
    changed[rows] = (labels[rows] + 1) % CLASSES
    return changed


def brute_force(log_probs, labels):
    probs = log_probs.exp()
    means = [float(probs[labels == c, c].mean()) for c in range(CLASSES)]
    listed = []
    for row in range(len(labels)):
        reached = [c for c in range(CLASSES) if probs[row, c] >= means[c]]
        best = max(reached, key=lambda c, row=row: float(probs[row, c]), default=labels[row])
        listed.append(int(best) != int(labels[row]))
    return torch.tensor(listed)


def test_the_list_is_that_of_confident_learning(clean):
    labels, _, log_probs = clean
    wrong = flipped(labels, torch.arange(30))
    assert (confident_disagreement(log_probs, wrong) == brute_force(log_probs, wrong)).all()


def test_wrong_labels_come_first(clean):
    labels, features, log_probs = clean
    wrong = flipped(labels, torch.arange(20))
    bank = {"train_features": features[200:], "train_labels": labels[200:]}
    found = find_label_errors(log_probs[:200], wrong[:200], features=features[:200], **bank)
    assert found.neighbors
    assert len(set(found.rows[:15]) & set(range(20))) >= 14
    first = found.suspects[0]
    assert first.label == int(wrong[first.sample]) != first.predicted
    assert first.probability < first.confidence
    assert [one.score for one in found.suspects] == sorted(
        (one.score for one in found.suspects), reverse=True
    )


def test_the_check_changes_two_per_cent_and_counts_what_is_found(clean):
    labels, _, log_probs = clean
    planted = find_label_errors(log_probs, labels).planted
    assert planted.changed == 12
    assert planted.found.value >= 0.75
    assert planted.precision.value == pytest.approx(planted.found.value * 12 / planted.listed)
    assert find_label_errors(log_probs, labels).planted == planted


def test_a_network_that_knows_nothing_says_so():
    log_probs = (
        torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    )
    labels = torch.randint(0, 3, (500,), generator=torch.Generator().manual_seed(1))
    planted = find_label_errors(log_probs, labels).planted
    assert planted.precision.high < 0.15


def test_scores_are_log_odds_against_the_label():
    probs = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
    odds = label_scores(probs.log(), torch.tensor([1]))
    assert float(odds) == pytest.approx(float(torch.logit(torch.tensor(0.8, dtype=torch.float64))))


def test_a_class_that_is_absent_is_no_suspicion(clean):
    labels, _, log_probs = clean
    kept = labels != 3
    more = F.pad(log_probs[kept], (0, 1), value=-40.0)
    assert find_label_errors(more, labels[kept]).samples == int(kept.sum())


@pytest.mark.parametrize(("count", "words"), [(1, "only 1 sample"), (5, "all labels are the same")])
def test_what_cannot_be_judged_is_refused(count, words):
    log_probs = torch.zeros(count, 3).double().log_softmax(-1)
    with pytest.raises(NescioError, match=words):
        find_label_errors(log_probs, torch.zeros(count, dtype=torch.long))
