"""One update of M members: gradients by hand or by autograd, together or one after the other."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from nescio.core import NescioError, Rng
from nescio.losses import Batch, Loss
from nescio.nets.stack import Dense, Forward, Stack, Tensors
from nescio.training.optimizers import Optimizer, clip_members
from nescio.training.team import Team

Look = Callable[[Batch, Rng], tuple[Tensor, list[Tensor]]]


class Learner(Protocol):
    """What stays the same from update to update."""

    @property
    def loss(self) -> Loss: ...

    @property
    def architecture(self) -> Stack: ...

    @property
    def by_hand(self) -> Dense | None:
        """Gradients in closed form, where network and loss allow it."""

    @property
    def clip(self) -> float | None:
        """The largest gradient norm of a member."""

    @property
    def half(self) -> bool:
        """Whether products and convolutions are in bfloat16."""

    @property
    def together(self) -> bool:
        """Whether all members run in one go, rather than one after the other."""


def advance(
    learner: Learner,
    weights: Tensors,
    optimizer: Optimizer,
    batch: Batch,
    rng: Rng,
    rate: float,
    team: Team,
) -> Tensor:
    """Move the weights of all members, in place; their losses `(M,)`.

    In parts: those of the threads, and of networks that are not stacked each member. Activations
    and gradients of one network at a time stay in the cache.
    """
    if learner.together and team.parts == 1:
        return update(learner, weights, optimizer, batch, rng, rate)

    def move(some: list[int]) -> tuple[Tensor, dict[str, Tensor]]:
        part = slice(some[0], some[-1] + 1)
        # Through .data, a view has its own count of changes: what another thread does to its own
        # members would otherwise look to autograd as if these had changed between two passes.
        mine = {name: tensor.data[part] for name, tensor in weights.items()}
        own, chance = batch.members(part), rng.of(part)
        losses = update(learner, mine, optimizer.members(part), own, chance, rate)
        return losses, own.memory

    def move_all(some: list[int]) -> list[tuple[Tensor, dict[str, Tensor]]]:
        return [move(some)] if learner.together else [move([member]) for member in some]

    moved = [one for part in team.each(move_all, len(rng.members)) for one in part]
    optimizer.steps += 1
    losses, memories = zip(*moved, strict=True)
    for name in memories[0]:
        if name not in batch.memory:  # from now on the members change their parts of it in place
            batch.memory[name] = torch.cat([memory[name] for memory in memories])
    return torch.cat(losses)


def update(
    learner: Learner, weights: Tensors, optimizer: Optimizer, batch: Batch, rng: Rng, rate: float
) -> Tensor:
    """Move the weights of some members, in place; their losses."""
    leaves = [weights[name].detach() for name in learner.architecture.trained]
    losses, slopes = _gradients(learner, weights, leaves, batch, rng)
    if optimizer.is_exact:
        look = partial(_gradients, learner, weights, leaves)
        if optimizer.steps == 0:
            _check_still(losses, look, batch, rng)
        optimizer.search(leaves, losses, slopes, lambda: look(replace(batch, wanted=[]), rng))
        return losses
    if learner.clip is not None:
        slopes = clip_members(slopes, learner.clip)
    optimizer.update(leaves, slopes, rate)
    return losses


def _gradients(
    learner: Learner, weights: Tensors, leaves: list[Tensor], batch: Batch, rng: Rng
) -> tuple[Tensor, list[Tensor]]:
    """The losses `(M,)` at the weights as they are, and the gradients of the leaves."""
    if learner.by_hand is not None and learner.loss.slope is not None:
        slope = learner.loss.slope
        return learner.by_hand(weights, batch.x, batch.y, slope, batch.weight)
    for leaf in leaves:
        leaf.requires_grad_()
    trained = dict(zip(learner.architecture.trained, leaves, strict=True))
    every = {**weights, **trained}
    forward = Forward(learner.architecture, every, rng, averaged=batch.averaged)
    kind = leaves[0].device.type
    with torch.enable_grad(), torch.autocast(kind, torch.bfloat16, enabled=learner.half):
        return _by_autograd(learner.loss, forward, batch, rng, leaves)


def _check_still(losses: Tensor, look: Look, batch: Batch, rng: Rng) -> None:
    """Refuse a loss that differs from step to step where nothing else does."""
    later = replace(batch, step=batch.step + 1, wanted=[])
    if not torch.equal(losses, look(later, rng.again("another step"))[0]):
        raise NescioError(
            "lbfgs needs the same loss at every step, and this one draws random numbers or changes "
            "with the step: dropout, noise, a schedule? Leave them out, or take adam or sgd"
        )


def _by_autograd(
    loss: Loss, forward: Forward, batch: Batch, rng: Rng, leaves: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    losses = loss(forward, batch, rng)
    _check_losses(losses, len(rng.members))
    # The gradient of the sum: no member's loss depends on another member's weights. (Passing ones
    # for the outputs instead would import sympy, a second at the first step.)
    inputs = [tensor for tensor, _ in batch.wanted]
    every = torch.autograd.grad(losses.sum(), [*leaves, *inputs], allow_unused=True)
    slopes, others = every[: len(leaves)], every[len(leaves) :]
    for (_, take), slope in zip(batch.wanted, others, strict=True):
        take(slope)
    pairs = zip(leaves, slopes, strict=True)
    filled = [torch.zeros_like(leaf) if slope is None else slope for leaf, slope in pairs]
    return losses.detach(), filled


def lost_member(values: Tensor) -> int | None:
    """The first member, by index, with a number in values `(M, ...)` that is not finite."""
    if values.isfinite().all():
        return None
    return int((~values.isfinite().reshape(len(values), -1).all(1)).nonzero()[0])


def _check_losses(losses: object, members: int) -> None:
    """Refuse what a loss of the user returns, unless it is a number for each member."""
    if not isinstance(losses, Tensor) or losses.shape != (members,):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise NescioError(
            f"a loss must return one number for each member, shape ({members},), got {got}; "
            "average over samples alone: batch.mean(scores) of scores (members, samples)"
        )
    if not losses.requires_grad:
        raise NescioError(
            "the loss does not depend on the weights of the networks; it must be made of what "
            "forward(batch.x) returns, without detach() or no_grad()"
        )
