"""The entropy of the answer: against scipy, and where probabilities round to 1."""

import math

import pytest
import torch
from scipy import stats

from nescio.detectors import entropy
from nescio.detectors.activations import Activations


@pytest.mark.parametrize("temperature", [0.5, 1.0, 100.0])
def test_against_scipy(temperature):
    logits = 4 * torch.randn(300, 10)
    found = entropy(temperature=temperature)(Activations(logits=logits))
    probs = (logits.double() / temperature).softmax(-1)
    expected = torch.as_tensor(stats.entropy(probs.numpy(), axis=1))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)


def test_small_entropies_keep_their_digits():
    """Two classes with odds e^-g: log(1 + e^-g) + g e^-g / (1 + e^-g)."""
    gaps = torch.tensor([0.0, 1.0, 10.0, 20.0, 50.0, 80.0])
    found = entropy()(Activations(logits=torch.stack([gaps, torch.zeros(6)], -1)))
    odds = [math.exp(-g) for g in gaps.tolist()]
    expected = [math.log1p(q) + g * q / (1 + q) for g, q in zip(gaps.tolist(), odds, strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=0)


def test_the_uniform_answer_has_the_most():
    found = entropy()(Activations(logits=torch.zeros(2, 8)))
    torch.testing.assert_close(found, torch.full((2,), math.log(8)))
