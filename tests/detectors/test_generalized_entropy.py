"""GEN: the sum over the largest probabilities, one by one in float64."""

import math

import pytest
import torch

from nescio.core import NescioError
from nescio.detectors import generalized_entropy
from nescio.detectors.activations import Activations


def by_definition(row, gamma, top):
    """Probabilities p and 1 - p as sums, so that neither rounds away."""
    powers = [math.exp(z - max(row)) for z in row]
    whole = math.fsum(powers)
    rests = [math.fsum(powers[:k] + powers[k + 1 :]) / whole for k in range(len(row))]
    pairs = sorted(((power / whole, rest) for power, rest in zip(powers, rests, strict=True)))
    return math.fsum(p**gamma * q**gamma for p, q in pairs[-top:])


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("top", [1, 2, 5, 12, 100])
@pytest.mark.parametrize("spread", [1.0, 20.0])
def test_the_definition(gamma, top, spread):
    logits = spread * torch.randn(60, 12)
    found = generalized_entropy(gamma=gamma, top=top)(Activations(logits=logits))
    expected = torch.tensor([by_definition(row, gamma, top) for row in logits.double().tolist()])
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=1e-30)


def test_where_p_rounds_to_one_it_goes_on():
    """Two classes, odds e^-g: 2 (p q)^gamma, about 2 e^(-gamma g)."""
    gaps = torch.tensor([20.0, 60.0, 200.0, 500.0])
    found = generalized_entropy()(Activations(logits=torch.stack([gaps, torch.zeros(4)], -1)))
    torch.testing.assert_close(found, 2 * (-0.1 * gaps).exp(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("options", [{"gamma": 0.0}, {"gamma": 1.5}, {"top": 0}, {"top": 2.5}])
def test_bad_options(options):
    with pytest.raises(NescioError, match="gamma must be|top must be"):
        generalized_entropy(**options)
