"""Attacks inside a training step: objectives on outputs `(M, B, C)`, and random starts."""

import math

import torch
from torch import Tensor

from nescio.attacks import Ascent
from nescio.randomness import Rng

ADVICE = "give the attack the range of valid inputs: attack=Ascent(..., low=..., high=...)"


def top_odds(outputs: Tensor) -> Tensor:
    """Log-odds of the most probable class, `(M, B)`; they rise where probabilities round to 1."""
    top, label = outputs.max(-1, keepdim=True)
    return top[..., 0] - outputs.scatter(-1, label, -math.inf).logsumexp(-1)


def label_odds(outputs: Tensor, labels: Tensor) -> Tensor:
    """Log-odds against the labels `(M, B)`."""
    label = labels[..., None]
    others = outputs.scatter(-1, label, -math.inf).logsumexp(-1)
    return others - outputs.gather(-1, label)[..., 0]


def random_start(ascent: Ascent, centre: Tensor, rng: Rng, scale: float = 1.0) -> Tensor:
    """Points `(M, B, ...)` of the balls, each member's from its own generator."""
    cases, features = centre[0].flatten(1).shape
    draws = [torch.rand(cases, 1 + features, generator=g) for g in rng.generators("attack")]
    return ascent.start(centre, torch.cat(draws).to(centre), scale=scale)
