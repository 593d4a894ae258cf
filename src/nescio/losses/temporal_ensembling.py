"""Temporal ensembling (Laine and Aila, 2017): targets are the answers of earlier epochs."""

import math

import torch
from torch import Tensor

from nescio.core import RAMP, NescioError, Rng
from nescio.core.registry import losses
from nescio.losses.consistency import consistent
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward

BYTES = 4 << 30  # at most
NAME = "temporal_ensembling"


@losses.register
def temporal_ensembling(
    base: Loss, *, weight: float = 30.0, ramp: float = RAMP, momentum: float = 0.6
) -> Loss:
    """Add the squared distance from a moving average of earlier answers to the same input.

    Each time an input comes, labeled or unlabeled, its average becomes Z = momentum * Z + (1 -
    momentum) * p. The target is Z / (1 - momentum^t) after t times; before the first time there is
    none. It stores a number per member, input and class, also in checkpoints; more than 4 GB are
    refused.

    base: the loss that the term is added to.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    momentum: weight of the earlier answers in the average, in [0, 1).
    """
    if not 0 <= momentum < 1:
        raise NescioError(f"momentum must be in [0, 1), got {momentum}")

    def gap(probs: Tensor, _: Forward, batch: Batch, __: Rng) -> Tensor:
        stored, position = _stored(batch, probs), _positions(batch)
        rows = torch.arange(len(probs), device=probs.device)[:, None]
        before = stored[rows, position]
        # Probabilities add up to 1, so Z adds up to 1 - momentum^t.
        mass = before.sum(-1, keepdim=True)
        target = torch.where(mass > 0, before / torch.where(mass > 0, mass, 1.0), probs)
        stored[rows, _once(position)] = momentum * before + (1 - momentum) * probs.detach()
        stored[:, -1] = 0
        return (probs - target).square().mean(-1)

    text = f"{NAME}({base.description}, {weight=}, {ramp=}, {momentum=})"
    return consistent(base, text, gap, weight=weight, ramp=ramp)


def _stored(batch: Batch, probs: Tensor) -> Tensor:
    """The averages `(M, inputs + 1, ..., C)`: labeled inputs, unlabeled ones, and a last one.

    Of an input that occurs twice in a batch one is written to the last, which is then emptied.
    """
    if NAME not in batch.memory:
        shape = len(probs), batch.data_points + batch.unlabeled_points + 1, *probs.shape[2:]
        needed = math.prod(shape) * probs.element_size()
        if needed > BYTES:
            raise NescioError(
                f"the averaged answers of temporal_ensembling need {needed / 2**30:.1f} GB: "
                f"{shape[1] - 1} inputs x {len(probs)} members x {math.prod(shape[2:])} numbers; "
                "train fewer members at a time, give fewer unlabeled inputs, or use mean_teacher"
            )
        batch.memory[NAME] = torch.zeros(shape, dtype=probs.dtype, device=probs.device)
    return batch.memory[NAME]


def _positions(batch: Batch) -> Tensor:
    """Where the averages of the inputs of a step are, `(M, B + U)`."""
    if batch.index is None or batch.unlabeled_index is None:
        raise NescioError("temporal_ensembling needs a batch that says which inputs it has")
    return torch.cat([batch.index, batch.data_points + batch.unlabeled_index], 1)


def _once(position: Tensor) -> Tensor:
    """The positions `(M, n)`, where what occurs again in a row has the position -1."""
    ordered, order = torch.sort(position, dim=1, stable=True)
    repeated = torch.zeros_like(position, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.where(repeated.gather(1, order.argsort(1)), -1, position)
