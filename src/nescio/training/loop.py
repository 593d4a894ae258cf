"""The loop itself: steps, epochs, validation, early stopping, checkpoints, a clean stop."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    NescioError,
    Rng,
    Schedule,
    as_batch,
    as_labels,
    progress,
)
from nescio.data.augmentation import Augment, augment_pairs
from nescio.losses import Batch, Loss
from nescio.nets.stack import Dense, Forward, Stack
from nescio.training.state import State
from nescio.training.team import Team
from nescio.training.team import team as team_of
from nescio.training.update import advance

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that stays the same while the members train."""

    loss: Loss
    architecture: Stack
    by_hand: Dense | None  # gradients in closed form, where network and loss allow it
    data: Pair  # images may be bytes
    validation: Pair | None
    members: tuple[int, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    clip: float | None
    patience: int | None
    seed: int
    bootstrap: bool
    augments: tuple[Augment, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the network; bytes are converted to it a batch at a time."""
        return next((p.dtype for p in self.architecture.net.parameters()), torch.float32)

    @property
    def steps(self) -> int:
        """Steps per epoch; a single sample left over joins the last batch (BatchNorm needs two)."""
        whole, rest = divmod(len(self.data[0]), self.batch_size)
        return max(1, whole + (rest > 1))

    @property
    def together(self) -> bool:
        """Whether all members run in one go, rather than one after the other."""
        return self.architecture.takes(self.data[0].shape[1:])

    @property
    def work(self) -> int:
        """Multiply-adds of what runs in one go, roughly: all members, or one in a loop."""
        weights = sum(p.numel() for p in self.architecture.net.parameters())
        return weights * (len(self.members) if self.together else 1) * self.batch_size


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


def _threads(plan: Plan) -> AbstractContextManager[Team]:
    device = plan.data[0].device
    return team_of(device, len(plan.members), plan.work, together=plan.together)


def run(state: State, plan: Plan, saver: Saver, show: bool | None) -> None:
    """Train from where `state` is to the end of `plan`; `state` changes in place."""
    x = plan.data[0]
    low, high = as_batch(x.amin(0), plan.dtype), as_batch(x.amax(0), plan.dtype)
    with (
        _threads(plan) as team,
        saver.watching(),
        progress(plan.epochs, "training", show=show) as bar,
    ):
        bar(state.epoch, str)
        while state.epoch < plan.epochs and state.active:
            rng = Rng(plan.seed, tuple(plan.members[i] for i in state.active))
            orders = _orders(plan, rng.at(state.epoch))
            while state.step < plan.steps:
                with team.step(state.epoch * plan.steps + state.step):
                    _step(state, plan, _batch(state, plan, orders, low, high), rng, team)
                if state.step < plan.steps:
                    saver.after_step(state)
            _end_epoch(state, plan, team)
            bar(1, lambda: f"loss {state.train[state.epoch - 1].nanmean():.4g}")
            saver.after_step(state)


def _orders(plan: Plan, rng: Rng) -> Tensor | None:
    """The order of the samples for each member, `(A, N)`; None for the whole set as it is."""
    x = plan.data[0]
    if plan.steps == 1 and not plan.bootstrap:
        return None
    orders = rng.orders(len(x))
    if plan.bootstrap:  # a sample with replacement, the same in every epoch
        orders = rng.at().choices(len(x)).gather(1, orders)
    return orders.to(x.device)


def _batch(state: State, plan: Plan, orders: Tensor | None, low: Tensor, high: Tensor) -> Batch:
    x, y = plan.data
    done, total = state.epoch * plan.steps + state.step, plan.epochs * plan.steps
    if orders is None:
        members = len(state.active)
        chosen = x.expand(members, *x.shape), y.expand(members, *y.shape)
    else:
        start, last = state.step * plan.batch_size, state.step == plan.steps - 1
        index = orders[:, start : None if last else start + plan.batch_size]
        chosen = x[index], y[index]
    if plan.augments:
        ids = tuple(plan.members[i] for i in state.active)
        rng = Rng(plan.seed, ids, (state.epoch, state.step))
        chosen = augment_pairs(plan.augments, *chosen, rng, plan.loss.ignore_index)
    images, targets = chosen
    return Batch(
        x=as_batch(images, low.dtype),
        y=as_labels(targets),
        points=len(x),
        low=low,
        high=high,
        steps=plan.steps,
        step=done,
        total=total,
        memory=state.memory,
    )


def _step(state: State, plan: Plan, batch: Batch, rng: Rng, team: Team) -> None:
    """One update of every active member."""
    done = state.epoch * plan.steps + state.step
    rate = plan.learning_rate * plan.schedule(done, plan.epochs * plan.steps)
    rng = rng.at(state.epoch, state.step)
    losses = advance(plan, state.weights, state.optimizer, batch, rng, rate, team)
    state.sums += losses * (batch.x.shape[1] / batch.points)
    state.step += 1


@torch.no_grad()
def _end_epoch(state: State, plan: Plan, team: Team) -> None:
    if not math.isfinite(state.sums.sum().item()):
        raise _lost(state, plan, state.sums, "the loss")
    if len(state.active) == len(plan.members):
        state.train[state.epoch] = state.sums
    else:
        state.train[state.epoch, state.active] = state.sums
    state.sums.zero_()
    if plan.validation is not None:
        _validate(state, plan, plan.validation, team)
    state.epoch, state.step = state.epoch + 1, 0


def _lost(state: State, plan: Plan, values: Tensor, what: str) -> NescioError:
    member = plan.members[state.active[int((~values.isfinite()).nonzero()[0])]]
    return diverged(member, state.epoch, what)


def diverged(member: int, epoch: int, what: str) -> NescioError:
    """The error of a training that ran away: where it happened, and what to try."""
    return NescioError(
        f"{what} of member {member} became NaN or infinite in epoch {epoch}; try a smaller "
        "learning_rate, clip=1.0, standardize=True, or a head with a larger floor"
    )


def _validate(state: State, plan: Plan, data: Pair, team: Team) -> None:
    index = torch.tensor(state.active, device=state.sums.device)

    @torch.no_grad()  # each thread has its own switch
    def judge(some: list[int]) -> Tensor:
        weights = {n: tensor[some[0] : some[-1] + 1] for n, tensor in state.weights.items()}
        forward = Forward(plan.architecture, weights)
        return _validation_score(plan.loss, forward, data, len(some), state.sums.dtype)

    score = torch.cat(team.each(judge, len(index)))
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


def _validation_score(
    loss: Loss, forward: Forward, data: Pair, members: int, dtype: torch.dtype
) -> Tensor:
    """Mean score of each member on validation data, in evaluation mode, in bounded pieces."""
    total = torch.zeros(members, dtype=dtype, device=data[0].device)
    labels = torch.zeros(members, dtype=torch.long, device=data[0].device)
    for x, y in zip(data[0].split(1024), data[1].split(1024), strict=True):
        outputs = forward(as_batch(x, dtype).expand(members, *x.shape))
        scores, counted = loss.totals(outputs, as_labels(y).expand(members, *y.shape))
        total, labels = total + scores, labels + counted
    return total / labels
