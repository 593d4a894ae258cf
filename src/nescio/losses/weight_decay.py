"""Weight decay as a true squared norm of all trained weights."""

import torch
from torch import Tensor

from nescio.core import NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, plus
from nescio.nets.stack import Forward


@losses.register
def weight_decay(base: Loss, *, strength: float = 1e-4) -> Loss:
    """Add `strength` times the sum of squares of all trained weights."""
    if not strength >= 0:
        raise NescioError(f"strength must not be negative, got {strength}")

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        del batch, rng
        squares = [weight.flatten(1).square().sum(1) for weight in forward.parameters.values()]
        return strength * torch.stack(squares).sum(0)

    return plus(base, f"weight_decay({base.description}, {strength=})", term)
