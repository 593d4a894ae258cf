"""What both worlds share: seeds, the training recipe, and the worst point nearby."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nescio import training
from nescio.models.model import Model
from nescio_papers.kit import Settings

OWN = "on the practical's own run"  # repeated with other orders of its points, as in `printed_runs`
BY_SEED = "corrected, over the seeds"
SHARE = 0.01  # of the range of an input: the practical's 0.08 of 8 and 0.02 of 2


def seeds(settings: Settings, count: int) -> list[int]:
    """Seeds of repeated measurements; other settings, other seeds."""
    return [100 * settings.seed + index for index in range(count)]


def warm_cosine(step: int, steps: int) -> float:
    """A rise over the first twentieth of the training, then half a cosine down to zero."""
    rise = min(1.0, 20 * (step + 1) / steps)
    return rise * 0.5 * (1 + math.cos(math.pi * step / steps))


def train(make: Callable[[], nn.Module], data: Any, **options: Any) -> Model:
    """`nescio.train` without its progress bar."""
    return training.train(make, data, progress=False, **options)


def fast_gradient(
    model: Model, x: Tensor, y: Tensor, radius: float, member: int | None = None
) -> Tensor:
    """Move x by `radius` along the sign of the gradient of the mixture's, or a member's, NLL."""
    x = x.detach().requires_grad_()
    members = slice(None) if member is None else slice(member, member + 1)
    tensors = {name: tensor[members] for name, tensor in model.tensors.items()}
    outputs = model.architecture(tensors, x.expand(len(range(model.members)[members]), *x.shape))
    score = -model.head(outputs).log_prob(y).sum()
    (slope,) = torch.autograd.grad(score, x)
    return (x + radius * slope.sign()).detach()
