"""Entropy of the averaged prediction: total uncertainty (Gal, 2016)."""

import math

import torch
from torch import Tensor

from nescio.measures.measure import logarithm, measure
from nescio.prediction import Classification


@measure
def predictive_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Entropy of the mean probabilities (total uncertainty); `base=C` is the normalised form."""
    return entropy(prediction.log_probs) / logarithm(base)


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy over the last axis in nats; a probability of 0 adds nothing."""
    probs = log_probs.exp()
    return -torch.where(probs > 0, probs * log_probs, 0.0).sum(-1)
