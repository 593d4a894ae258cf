"""The loop itself: steps, epochs, validation, early stopping, checkpoints, a clean stop."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from nescio.core import (
    NescioError,
    Rng,
    Schedule,
    as_batch,
    as_labels,
    one_thread,
    progress,
    workers,
)
from nescio.data.augmentation import Augment, augment_pairs
from nescio.losses import Batch, Loss
from nescio.nets.stack import Dense, Forward, Stack, Tensors
from nescio.training.state import Optimizer, State, clip_members

TINY = 4_000_000  # multiply-adds at a time below which a second thread costs more than it gives;
LARGE = 16_000_000  # of stacked networks: a convolution does more than its weights say
EVERY, TRIALS = 200, 4  # steps, and how many of them are timed
Pair = tuple[Tensor, Tensor]
T = TypeVar("T")


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


@dataclass
class Team:
    """Threads that train, each a part of the members; a single network is left to torch's threads.

    Beside other work, threads wait for each other. So now and then a few steps are timed, the parts
    one after the other and at once, and what is faster is used. The parts stay the same, each on
    one thread, and with them the numbers.
    """

    pool: ThreadPoolExecutor | None = None
    parts: int = 1
    alone: bool = False
    times: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A block for a step, with the threads that are best now."""
        trial = number % EVERY
        if self.pool is None:
            yield
            return
        if trial < TRIALS:
            self.alone = trial < TRIALS // 2
        elif trial == TRIALS:
            half = TRIALS // 2
            one, all_ = (min(self.times.get(i, 0.0) for i in range(s, s + half)) for s in (0, half))
            self.alone = one < all_
        start = time.perf_counter()
        with one_thread():
            yield
        self.times[trial] = time.perf_counter() - start

    def each(self, work: Callable[[list[int]], T], members: int) -> list[T]:
        """What `work` makes of the members, in their order, in parts."""
        size = -(-members // self.parts)
        parts = [list(range(members))[i : i + size] for i in range(0, members, size)]
        if self.pool is None or self.alone:
            return list(map(work, parts))
        return list(self.pool.map(work, parts))


@contextmanager
def _team(plan: Plan) -> Iterator[Team]:
    # A large block, freed untouched, makes the C library keep freed activations instead of
    # returning them to the system after each step and faulting them in again.
    block = torch.empty(31 << 18)
    del block
    threads = torch.get_num_threads()
    parts = min(threads, len(plan.members))
    if plan.data[0].device.type != "cpu" or threads == 1:
        yield Team()
    elif plan.work < (LARGE if plan.together else TINY):
        with one_thread():
            yield Team()
    elif parts == 1:
        yield Team()
    else:
        with workers(parts) as pool:
            yield Team(pool, parts)


def run(state: State, plan: Plan, saver: Saver, show: bool | None) -> None:
    """Train from where `state` is to the end of `plan`; `state` changes in place."""
    x = plan.data[0]
    low, high = as_batch(x.amin(0), plan.dtype), as_batch(x.amax(0), plan.dtype)
    with (
        _team(plan) as team,
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
    if plan.together and team.parts == 1:
        losses = _update(plan, state.weights, state.optimizer, batch, rng, rate)
    else:
        losses = _in_parts(state, plan, batch, rng, rate, team)
    state.sums += losses * (batch.x.shape[1] / batch.points)
    state.step += 1


def _in_parts(state: State, plan: Plan, batch: Batch, rng: Rng, rate: float, team: Team) -> Tensor:
    """The same in parts: those of the threads, and of networks that are not stacked each member.

    Activations and gradients of one network at a time stay in the cache.
    """

    def move(some: list[int]) -> tuple[Tensor, dict[str, Tensor]]:
        part = slice(some[0], some[-1] + 1)
        weights = {name: tensor[part] for name, tensor in state.weights.items()}
        own, chance = batch.members(part), rng.of(part)
        losses = _update(plan, weights, state.optimizer.members(part), own, chance, rate)
        return losses, own.memory

    def move_all(some: list[int]) -> list[tuple[Tensor, dict[str, Tensor]]]:
        return [move(some)] if plan.together else [move([member]) for member in some]

    moved = [one for part in team.each(move_all, len(state.active)) for one in part]
    state.optimizer.steps += 1
    losses, memories = zip(*moved, strict=True)
    for name in memories[0]:
        if name not in batch.memory:  # from now on the members change their parts of it in place
            batch.memory[name] = torch.cat([memory[name] for memory in memories])
    return torch.cat(losses)


def _update(
    plan: Plan, weights: Tensors, optimizer: Optimizer, batch: Batch, rng: Rng, rate: float
) -> Tensor:
    """Move the weights of some members, in place; their losses."""
    leaves = [weights[name].detach() for name in plan.architecture.trained]
    if plan.by_hand is not None and plan.loss.slope is not None:
        losses, slopes = plan.by_hand(weights, batch.x, batch.y, plan.loss.slope)
    else:
        for leaf in leaves:
            leaf.requires_grad_()
        trained = dict(zip(plan.architecture.trained, leaves, strict=True))
        forward = Forward(plan.architecture, {**weights, **trained}, rng)
        losses, slopes = _by_autograd(plan.loss, forward, batch, rng, leaves)
    if plan.clip is not None:
        slopes = clip_members(slopes, plan.clip)
    optimizer.update(leaves, slopes, rate)
    return losses


def _by_autograd(
    loss: Loss, forward: Forward, batch: Batch, rng: Rng, leaves: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    losses = loss(forward, batch, rng)
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
