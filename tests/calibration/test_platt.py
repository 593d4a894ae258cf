"""Platt scaling against logistic regression."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from nescio.calibration import fit_platt, fit_temperature, scaled
from nescio.core import Categorical, NescioError


def scale(prediction, slope, intercept):
    return scaled(lambda x: prediction, slope, intercept)(None)


def binary(members=1, samples=500, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(members, samples, 2, generator=rng, dtype=torch.float64)
    gap = (logits[..., 1] - logits[..., 0]).mean(0)
    chance = torch.sigmoid(0.4 * gap - 0.7)
    return Categorical(logits), torch.bernoulli(chance, generator=rng).long()


def test_two_classes_are_logistic_regression_on_the_difference_of_the_logits():
    prediction, labels = binary()
    gap = (prediction.logits[0, :, 1] - prediction.logits[0, :, 0]).numpy()
    oracle = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
        gap[:, None], labels.numpy()
    )
    slope, intercept = fit_platt(prediction, labels)
    assert slope == pytest.approx(oracle.coef_.item(), rel=1e-5)
    assert intercept[0] == 0
    assert intercept[1] == pytest.approx(oracle.intercept_.item(), rel=1e-5)


@pytest.mark.parametrize("members", [1, 3])
def test_the_gradient_vanishes_and_the_likelihood_beats_temperature(members):
    prediction, labels = binary(members)
    slope, intercept = fit_platt(prediction, labels)
    values = torch.tensor([slope, *intercept[1:]], dtype=torch.float64).requires_grad_()
    shift = torch.stack([torch.zeros((), dtype=torch.float64), values[1]])
    loss = -Categorical(values[0] * prediction.logits + shift).log_prob(labels).mean()
    loss.backward()
    assert values.grad.abs().max() < 1e-6
    heated = scale(prediction, 1 / fit_temperature(prediction, labels), (0.0, 0.0))
    assert loss < -heated.log_prob(labels).mean()


def test_intercepts_of_many_classes_are_recovered():
    rng = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(1, 20_000, 4, generator=rng, dtype=torch.float64)
    truth = torch.tensor([0.0, 1.0, -1.0, 0.5], dtype=torch.float64)
    labels = torch.multinomial((0.6 * logits[0] + truth).softmax(-1), 1, generator=rng)[:, 0]
    slope, intercept = fit_platt(Categorical(logits), labels)
    assert slope == pytest.approx(0.6, rel=0.05)
    assert intercept == pytest.approx(truth.tolist(), abs=0.1)


def test_a_class_without_held_out_samples_is_an_error():
    logits = torch.randn(1, 50, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 2
    with pytest.raises(NescioError, match="1 of 3 classes have no calibration sample"):
        fit_platt(Categorical(logits), labels)


def test_data_that_a_shift_separates_has_no_best_slope():
    """Class 1 whenever the gap exceeds 1: not all right before, always right after a shift."""
    gap = torch.linspace(-3, 3, 40, dtype=torch.float64)
    prediction = Categorical(torch.stack([torch.zeros_like(gap), gap], -1)[None])
    with pytest.raises(NescioError, match="converge|separate|right"):
        fit_platt(prediction, (gap > 1).long())


def test_a_class_that_is_ruled_out_is_an_error_and_no_silent_slope_of_1():
    prediction, labels = binary()
    padded = torch.cat([prediction.logits, torch.zeros(1, 500, 1)], -1)
    padded[0, 40, 2] = -math.inf
    with pytest.raises(NescioError, match="1 sample.s. have a class of probability 0"):
        fit_platt(Categorical(padded), torch.where(torch.arange(500) < 20, 2, labels))


def test_many_classes_reach_a_flat_place():
    rng = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(1, 1500, 60, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((0.5 * logits[0]).softmax(-1), 1, generator=rng)[:, 0]
    labels[:60] = torch.arange(60)
    slope, intercept = fit_platt(Categorical(logits), labels)
    rest = (slope * logits[0] + torch.tensor(intercept, dtype=torch.float64)).softmax(-1)
    rest[torch.arange(1500), labels] -= 1
    assert rest.mean(0).abs().max() < 1e-8
    assert (rest * logits[0]).sum(-1).mean().abs() < 1e-7


def test_scaling_by_hand():
    prediction = scale(Categorical(torch.tensor([[[1.0, 3.0]]])), 0.5, (0.0, -1.0))
    assert prediction.logits.tolist() == [[[0.5, 0.5]]]
    assert prediction.probs[0, 0].item() == pytest.approx(0.5)
    assert math.isclose(prediction.log_prob(torch.tensor([0])).item(), -math.log(2), rel_tol=1e-6)
