"""The free energy: against float64 and its limits."""

import math

import pytest
import torch

from nescio.detectors import energy, max_logit
from nescio.detectors.activations import Activations


@pytest.mark.parametrize("temperature", [0.1, 1.0, 2.0, 1000.0])
def test_the_definition(temperature):
    logits = 10 * torch.randn(300, 10)
    found = energy(temperature=temperature)(Activations(logits=logits))
    sums = [
        math.log(math.fsum(math.exp(z / temperature) for z in row)) for row in logits.tolist()
    ] if temperature >= 1 else (logits.double() / temperature).logsumexp(-1).tolist()  # fmt: skip
    expected = -temperature * torch.tensor(sums, dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)


def test_a_low_temperature_is_the_largest_logit():
    activations = Activations(logits=torch.randn(40, 5))
    torch.testing.assert_close(
        energy(temperature=1e-4)(activations), max_logit()(activations), rtol=0, atol=1e-3
    )


def test_large_logits_do_not_overflow():
    found = energy()(Activations(logits=torch.tensor([[1e30, 0.0], [-1e30, -1e30]])))
    torch.testing.assert_close(found, torch.tensor([-1e30, 1e30]))
