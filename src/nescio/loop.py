"""The loop itself: steps, epochs, validation, early stopping, checkpoints, a clean stop."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.checkpoints import State
from nescio.dense import Dense
from nescio.errors import NescioError
from nescio.losses import Batch, Loss
from nescio.optimisers import clip_members
from nescio.progress import progress
from nescio.randomness import Rng
from nescio.schedules import Schedule
from nescio.stacking import Forward, Stack
from nescio.threads import one_thread

TINY = 4_000_000  # multiply-adds at a time below which a second thread costs more than it gives
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Plan:
    """Everything that stays the same while the members train."""

    loss: Loss
    architecture: Stack
    by_hand: Dense | None  # gradients in closed form, where network and loss allow it
    data: Pair
    held: Pair | None  # validation data
    members: tuple[int, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    clip: float | None
    patience: int | None
    seed: int
    bootstrap: bool

    @property
    def steps(self) -> int:
        """Steps an epoch; a single case left over joins the last batch (BatchNorm needs two)."""
        whole, rest = divmod(len(self.data[0]), self.batch_size)
        return max(1, whole + (rest > 1))

    @property
    def work(self) -> int:
        """Multiply-adds of what runs in one go, roughly: all members, or one in a loop."""
        weights = sum(p.numel() for p in self.architecture.net.parameters())
        together = len(self.members) if self.architecture.takes(self.data[0].shape[1:]) else 1
        return weights * together * self.batch_size


class Saver:
    """Writes checkpoints now and then, and when asked to stop."""

    def __init__(self, path: Path | None, config: Mapping[str, Any], seconds: float) -> None:
        self.path, self.config, self.seconds = path, config, seconds
        self.last = time.monotonic()
        self.stop = False

    def after_step(self, state: State) -> None:
        due = self.path is not None and time.monotonic() - self.last >= self.seconds
        if (due or self.stop) and self.path is not None and state.sums.isfinite().all():
            start = time.monotonic()
            state.save(self.path, self.config)
            self.last = time.monotonic()
            self.seconds = max(self.seconds, 20 * (self.last - start))  # at most 5 % of the time
        if self.stop:
            raise KeyboardInterrupt

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn Ctrl-C into a stop after the step under way, so that the state is whole."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(*_: Any) -> None:
            if self.stop:  # the second time: at once
                raise KeyboardInterrupt
            self.stop = True

        before = signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before or signal.default_int_handler)


@contextmanager
def _prepared(work: int) -> Iterator[None]:
    """Settings of the process that make steps fast, put back afterwards."""
    # A large block, freed untouched, makes the C library keep freed activations instead of
    # returning them to the system after each step and faulting them in again.
    block = torch.empty(31 << 18)
    del block
    with one_thread() if work < TINY else nullcontext():
        yield


def run(state: State, plan: Plan, saver: Saver, show: bool | None) -> None:
    """Train from where `state` is to the end of `plan`; `state` changes in place."""
    low, high = plan.data[0].amin(0), plan.data[0].amax(0)
    with (
        _prepared(plan.work),
        saver.watching(),
        progress(plan.epochs, "training", show=show) as bar,
    ):
        bar(state.epoch, str)
        while state.epoch < plan.epochs and state.active:
            rng = Rng(plan.seed, tuple(plan.members[i] for i in state.active))
            orders = _orders(plan, rng.at(state.epoch))
            while state.step < plan.steps:
                _step(state, plan, _batch(state, plan, orders, low, high), rng)
                if state.step < plan.steps:
                    saver.after_step(state)
            _end_epoch(state, plan)
            bar(1, lambda: f"loss {state.train[state.epoch - 1].nanmean():.4g}")
            saver.after_step(state)


def _orders(plan: Plan, rng: Rng) -> Tensor | None:
    """The order of the cases for each member, `(A, N)`; None for the whole set as it is."""
    x = plan.data[0]
    if plan.steps == 1 and not plan.bootstrap:
        return None
    orders = rng.orders(len(x))
    if plan.bootstrap:  # a sample with replacement, the same in every epoch
        orders = rng.at().choices(len(x)).gather(1, orders)
    return orders.to(x.device)


def _batch(state: State, plan: Plan, orders: Tensor | None, low: Tensor, high: Tensor) -> Batch:
    x, y = plan.data
    if orders is None:
        members = len(state.active)
        return Batch(x.expand(members, *x.shape), y.expand(members, *y.shape), len(x), low, high)
    start, last = state.step * plan.batch_size, state.step == plan.steps - 1
    index = orders[:, start : None if last else start + plan.batch_size]
    return Batch(x[index], y[index], len(x), low, high, plan.steps)


def _step(state: State, plan: Plan, batch: Batch, rng: Rng) -> None:
    """One update of every active member."""
    leaves = [state.weights[name] for name in plan.architecture.trained]
    if plan.by_hand is not None and plan.loss.slope is not None:
        losses, slopes = plan.by_hand(state.weights, batch.x, batch.y, plan.loss.slope)
    else:
        losses, slopes = _by_autograd(state, plan, batch, rng.at(state.epoch, state.step), leaves)
    if plan.clip is not None:
        slopes = clip_members(slopes, plan.clip)
    done = state.epoch * plan.steps + state.step
    rate = plan.learning_rate * plan.schedule(done, plan.epochs * plan.steps)
    state.optimiser.update(leaves, slopes, rate)
    state.sums += losses * (batch.x.shape[1] / batch.points)
    state.step += 1


def _by_autograd(
    state: State, plan: Plan, batch: Batch, rng: Rng, leaves: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    for leaf in leaves:
        leaf.requires_grad_()
    losses = plan.loss(Forward(plan.architecture, state.weights, rng), batch, rng)
    # The gradient of the sum: no member's loss depends on another member's weights. (Passing ones
    # for the outputs instead would import sympy, a second at the first step.)
    slopes = torch.autograd.grad(losses.sum(), leaves, allow_unused=True)
    pairs = zip(leaves, slopes, strict=True)
    filled = [torch.zeros_like(leaf) if slope is None else slope for leaf, slope in pairs]
    return losses.detach(), filled


@torch.no_grad()
def _end_epoch(state: State, plan: Plan) -> None:
    if not math.isfinite(state.sums.sum().item()):
        raise _lost(state, plan, state.sums, "the loss")
    if len(state.active) == len(plan.members):
        state.train[state.epoch] = state.sums
    else:
        state.train[state.epoch, state.active] = state.sums
    state.sums.zero_()
    if plan.held is not None:
        _validate(state, plan, plan.held)
    state.epoch, state.step = state.epoch + 1, 0


def _lost(state: State, plan: Plan, values: Tensor, what: str) -> NescioError:
    member = plan.members[state.active[int((~values.isfinite()).nonzero()[0])]]
    return diverged(member, state.epoch, what)


def diverged(member: int, epoch: int, what: str) -> NescioError:
    """The error of a training that ran away: where it happened, and what to try."""
    return NescioError(
        f"{what} of member {member} became NaN or infinite in epoch {epoch}; try a smaller "
        "learning_rate, clip=1.0, standardise=True, or a head with a larger floor"
    )


def _validate(state: State, plan: Plan, held: Pair) -> None:
    index = torch.tensor(state.active, device=state.sums.device)
    score = _held_out(plan.loss, Forward(plan.architecture, state.weights), held, len(index))
    if not score.isfinite().all():
        raise _lost(state, plan, score, "the validation score")
    state.validation[state.epoch, index] = score
    if plan.patience is None:
        return
    better = score < state.best_score[index]
    winners = index[better]
    state.best_score[winners] = score[better]
    state.best_epoch[winners] = state.epoch
    for name, tensor in state.weights.items():
        state.best[name][winners] = tensor[better].detach()
    late = state.epoch - state.best_epoch[index] >= plan.patience
    if late.any():
        state.stopped[index[late]] = state.epoch + 1
        state.drop(late)


def _held_out(loss: Loss, forward: Forward, held: Pair, members: int) -> Tensor:
    """Mean score of each member on held-out data, in evaluation mode, in bounded pieces."""
    total = torch.zeros(members, dtype=held[0].dtype, device=held[0].device)
    for x, y in zip(held[0].split(1024), held[1].split(1024), strict=True):
        outputs = forward(x.expand(members, *x.shape))
        total += loss.score(outputs, y.expand(members, *y.shape)).flatten(1).sum(1)
    return total / len(held[0])
