"""Virtual adversarial training (Miyato et al., 2018): smooth answers, no label needed."""

from collections.abc import Callable

import torch
from torch import Tensor

from nescio.core import Head, NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, plus
from nescio.nets.stack import Forward

PROBE = 1e-2  # length of the first trial step, as a share of the radius' unit


@losses.register
def virtual_adversarial(
    base: Loss, *, radius: float = 0.05, weight: float = 1.0, iterations: int = 1
) -> Loss:
    """Add the divergence between the answers at x and at the worst point within `radius`.

    Distances are measured in units of each feature's training range. Labels are never read.
    """
    if not (radius > 0 and weight >= 0 and iterations >= 1):
        raise NescioError("virtual_adversarial needs radius > 0, weight >= 0 and iterations >= 1")

    def term(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        with torch.no_grad():  # the answers at x are constants
            outputs = forward(batch.x)
        gap = _gap(forward, base.head, batch.x, outputs, batch.high - batch.low)
        draw = rng.normal(batch.x.shape[1:], "virtual", like=batch.x)
        direction = _unit(draw, draw)
        for _ in range(iterations):
            trial = (PROBE * direction).requires_grad_()
            (slope,) = torch.autograd.grad(gap(trial).sum(), trial)
            direction = _unit(slope, direction)
        return weight * gap(radius * direction)

    text = f"virtual_adversarial({base.description}, {radius=}, {weight=}, {iterations=})"
    return plus(base, text, term)


def _gap(
    forward: Forward, head: Head, x: Tensor, outputs: Tensor, unit: Tensor
) -> Callable[[Tensor], Tensor]:
    def gap(offset: Tensor) -> Tensor:  # mean divergence of each member, (M,)
        moved = forward(x + unit * offset)
        return head.divergence(outputs, moved).flatten(1).mean(1)

    return gap


def _unit(direction: Tensor, otherwise: Tensor) -> Tensor:
    """Each sample scaled to length 1, first by its largest entry; `otherwise` where it is zero."""
    axes = tuple(range(2, direction.ndim))
    largest = direction.abs().amax(axes, keepdim=True)
    direction = torch.where(largest > 0, direction / largest, otherwise)
    length: Tensor = torch.linalg.vector_norm(direction, dim=axes, keepdim=True)
    return direction / length
