"""Calibration in the lecture: what is held out, and the numbers of a row."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from nescio.core import Categorical
from nescio_papers import Settings
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning import calibrating


def test_held_out_images_are_not_trained_on():
    x, y = torch.arange(40.0).reshape(40, 1, 1, 1), torch.arange(40) % 4
    shown, (held, labels) = calibrating.held_out(InData((x, y), (x[:2], y[:2]), 4))
    assert sorted([*shown.train[0].flatten().tolist(), *held.flatten().tolist()]) == list(range(40))
    assert (len(held), len(shown.train[1])) == (4, 36)
    assert labels.tolist() == y[::10].tolist()


def test_a_row_agrees_with_scikit_learn():
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 500, 3, generator=rng, dtype=torch.float64)
    labels = torch.randint(3, (500,), generator=rng)
    prediction = Categorical(logits)
    row = calibrating._row(prediction, labels, Settings(quick=True))
    assert row["nll"] == pytest.approx(log_loss(labels, prediction.probs.numpy()))
    assert row["error"] == pytest.approx((prediction.labels != labels).double().mean().item())
    one_hot = np.eye(3)[labels]
    expected = ((prediction.probs.numpy() - one_hot) ** 2).sum(1).mean()
    assert row["brier"] == pytest.approx(expected)
    assert row["ece_low"] < row["ece_high"]


def test_the_claims_are_judged_by_intervals():
    def found(high):
        after = {"ece": 0.01, "ece_low": 0.005, "ece_high": high, "nll": 0.5}
        before = {"ece": 0.1, "ece_low": 0.08, "ece_high": 0.12, "nll": 0.7}
        return {"MNIST": {"rows": {"before": before, "temperature": after}}}

    poor, repaired = calibrating.judge(found(0.015))
    assert (poor.verdict, repaired.verdict) == ("holds", "holds")
    assert "ECE 10.00% (8.00% to 12.00%), expected above" in poor.measured.replace(" %", "%")
    assert calibrating.judge(found(0.09))[1].verdict == "open"  # it may not have fallen at all
    assert calibrating.judge({"MNIST": {"rows": {}}}) == []


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.004, 0.008, "not reached here"), (0.008, 0.03, "open"), (0.02, 0.03, "holds")],
)
def test_only_a_badly_calibrated_network_can_be_repaired(low, high, verdict):
    after = {"ece": 0.003, "ece_low": 0.001, "ece_high": 0.0035, "nll": 0.5}
    before = {"ece": (low + high) / 2, "ece_low": low, "ece_high": high, "nll": 0.7}
    _, repaired = calibrating.judge({"MNIST": {"rows": {"before": before, "temperature": after}}})
    assert repaired.verdict == verdict


@pytest.mark.parametrize(("error", "verdict"), [(0.41, "not reached here"), (0.1, "holds")])
def test_photographs_must_have_been_learned(error, verdict):
    after = {"ece": 0.01, "ece_low": -0.001, "ece_high": 0.015, "nll": 0.5, "error": error}
    before = {"ece": 0.1, "ece_low": 0.08, "ece_high": 0.12, "nll": 0.7, "error": error}
    one = {"rows": {"before": before, "temperature": after}}
    claims = calibrating.judge({"MNIST": one, "CIFAR-10": one})
    assert [claim.verdict for claim in claims] == ["holds", "holds", verdict, verdict]
    assert claims[1].facts[1].low == 0  # an ECE is not negative


def test_published_numbers_stand_beside_ours():
    rows = {"before": {"ece": 0.04}, "temperature": {"ece": 0.01}}
    found = {"MNIST": {"rows": rows, "temperature": 1.3}, "CIFAR-10": {"rows": rows}}
    said = [(row.published, row.ours) for row in calibrating._comparisons(found)]
    assert said == [(1.173, 1.3), (0.046, 0.04), (0.0083, 0.01)]
    recalled = ["recalled" in row.note for row in calibrating._comparisons(found)]
    assert recalled == [False, True, True]
