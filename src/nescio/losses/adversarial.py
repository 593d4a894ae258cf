"""Adversarial training with the fast gradient sign (Goodfellow et al., 2015), as in deep ensembles.

The perturbed inputs are constants: the sign has no derivative, so nothing is lost by that.
"""

from dataclasses import replace

import torch
from torch import Tensor

from nescio.core import NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward


@losses.register
def adversarial(base: Loss, *, share: float = 0.01) -> Loss:
    """Average `base` on the batch and on x + radius * sign(gradient).

    The radius of each feature is `share` of its range in the training data (1 % in the paper).
    """
    if not share >= 0:
        raise NescioError(f"share must not be negative, got {share}")

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        x = batch.x.detach().requires_grad_()
        clean = base(forward, replace(batch, x=x), rng)
        (slope,) = torch.autograd.grad(clean.sum(), x, retain_graph=True)
        moved = batch.x + share * (batch.high - batch.low) * slope.sign()
        return 0.5 * (clean + base(forward, replace(batch, x=moved), rng))

    return Loss(f"adversarial({base.description}, {share=})", base.head, base.score, step)
