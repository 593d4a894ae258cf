"""Least confidence and log-odds: no saturation, one order."""

import math

import pytest
import torch

from nescio.core import Categorical, Dirichlet, least_confidence, log_odds


def test_least_confidence_is_one_minus_the_largest_probability():
    logits = torch.randn(4, 50, 6, generator=torch.Generator().manual_seed(0)).double()
    prediction = Categorical(logits)
    torch.testing.assert_close(least_confidence(prediction), 1 - prediction.probs.amax(-1))


@pytest.mark.parametrize("margin", [20.0, 50.0, 80.0])
def test_least_confidence_does_not_saturate_in_float32(margin):
    logits = torch.zeros(2, 1, 3)
    logits[..., 1] = margin
    expected = 2 / (math.exp(margin) + 2)
    assert least_confidence(Categorical(logits)).item() == pytest.approx(expected, rel=1e-5)


def test_log_odds_are_those_of_the_mixture():
    logits = torch.randn(4, 50, 6, generator=torch.Generator().manual_seed(0)).double()
    prediction = Categorical(logits)
    best = prediction.probs.amax(-1)
    torch.testing.assert_close(log_odds(prediction), ((1 - best) / best).log())


def test_log_odds_are_finite_and_ordered_where_probabilities_round_to_one():
    margins = torch.tensor([1e4, 100.0, 2e4, 1.0, 1e4 + 1])
    prediction = Categorical(torch.stack([margins, torch.zeros(5)], -1)[None])
    torch.testing.assert_close(log_odds(prediction), -margins)
    assert log_odds(prediction).argsort().tolist() == [2, 4, 0, 1, 3]


def test_log_odds_order_samples_as_least_confidence_does():
    logits = 5 * torch.randn(3, 200, 4, generator=torch.Generator().manual_seed(1)).double()
    for prediction in (Categorical(logits), Dirichlet(logits)):
        assert torch.equal(log_odds(prediction).argsort(), least_confidence(prediction).argsort())
