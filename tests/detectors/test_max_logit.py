"""The largest logit."""

import torch

from nescio.detectors import max_logit
from nescio.detectors.activations import Activations


def test_the_definition():
    logits = torch.randn(50, 7)
    expected = torch.tensor([-max(row) for row in logits.tolist()])
    assert torch.equal(max_logit()(Activations(logits=logits)), expected)
