"""Brier, squared, absolute and likelihood losses by hand."""

import math

import pytest
import torch

from nescio import heads, losses
from nescio.core import NescioError, Rng
from nescio.losses import Batch

LOGITS = torch.tensor([[[0.0, math.log(3.0)], [0.0, 0.0]]], dtype=torch.float64)  # (1, 2, 2)
LABELS = torch.tensor([[1, 0]])
MEAN = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]], dtype=torch.float64)
TARGET = torch.tensor([[[0.5, 4.0], [1.0, -1.0]]], dtype=torch.float64)


def value(loss, outputs, y):
    batch = Batch(
        x=torch.zeros(1, len(y[0]), 1),
        y=y,
        points=len(y[0]),
        low=torch.zeros(1),
        high=torch.ones(1),
    )
    return loss(lambda _: outputs, batch, Rng(0, (0,))).item()


def test_brier_is_a_sum_over_classes():
    assert value(losses.brier(), LOGITS, LABELS) == pytest.approx((2 / 16 + 2 / 4) / 2)


def test_brier_reads_the_mean_of_a_dirichlet():
    outputs = torch.tensor([[[2.0, -1.0]]], dtype=torch.float64)
    alpha = outputs.exp()
    wrong = (alpha[..., 1] / alpha.sum(-1)).item()
    loss = losses.brier(heads.dirichlet())
    assert value(loss, outputs, torch.tensor([[0]])) == pytest.approx(2 * wrong**2)


def test_likelihood_of_classes():
    expected = (-math.log(0.75) - math.log(0.5)) / 2
    assert value(losses.nll(), LOGITS, LABELS) == pytest.approx(expected)


def test_squared_and_absolute_errors_sum_over_targets_and_average_over_samples():
    assert value(losses.squared_error(), MEAN, TARGET) == pytest.approx((0.25 + 4 + 1 + 0) / 2)
    assert value(losses.absolute_error(), MEAN, TARGET) == pytest.approx((0.5 + 2 + 1 + 0) / 2)


@pytest.mark.parametrize("head", [heads.gaussian, heads.double_exponential])
@pytest.mark.parametrize("make", [losses.squared_error, losses.absolute_error])
def test_errors_read_the_mean_of_any_regression_head(make, head):
    outputs = torch.cat([MEAN, 9 * torch.ones_like(MEAN)], -1)
    assert value(make(head()), outputs, TARGET) == value(make(), MEAN, TARGET)


def test_likelihood_with_unit_variance_is_half_the_squared_error_and_a_constant():
    likelihood = value(losses.nll(heads.fixed_variance()), MEAN, TARGET)
    expected = value(losses.squared_error(), MEAN, TARGET) / 2 + math.log(2 * math.pi)
    assert likelihood == pytest.approx(expected)


@pytest.mark.parametrize("make", [losses.squared_error, losses.absolute_error])
def test_errors_of_classes_are_refused_when_made(make):
    with pytest.raises(NescioError, match="regression head, got categorical"):
        make(heads.categorical())


def test_the_brier_score_of_a_regression_is_refused():
    with pytest.raises(NescioError, match="class probabilities, the head is gaussian"):
        losses.brier(heads.gaussian())
