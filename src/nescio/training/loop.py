"""The loop itself: steps, epochs, validation, early stopping, checkpoints, a clean stop."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, Rng, progress
from nescio.nets.stack import Forward
from nescio.training.batches import Cohort, cohorts, make_batch, validation_pieces
from nescio.training.plan import Pair as Pair
from nescio.training.plan import Plan as Plan
from nescio.training.state import State
from nescio.training.team import Team
from nescio.training.team import team as team_of
from nescio.training.update import advance


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
        """Turn Ctrl-C into a stop after the step under way, so that the state is whole.

        So does SIGTERM where it does what Ctrl-C does, as in the command.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(*_: Any) -> None:
            if self.stop:  # the second time: at once
                raise KeyboardInterrupt
            self.stop = True

        alike = signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        numbers = (signal.SIGINT, signal.SIGTERM) if alike else (signal.SIGINT,)
        before = {number: signal.signal(number, handler) for number in numbers}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old or signal.default_int_handler)


def _threads(plan: Plan) -> AbstractContextManager[Team]:
    device = plan.data[0].device
    return team_of(device, len(plan.members), plan.work, together=plan.together)


def run(state: State, plan: Plan, saver: Saver, show: bool | None) -> None:
    """Train from where `state` is to the end of `plan`; `state` changes in place."""
    with (
        _threads(plan) as team,
        saver.watching(),
        progress(plan.epochs, "training", show=show) as bar,
    ):
        bar(state.epoch, str)
        while state.epoch < plan.epochs and state.active:
            rng = Rng(plan.seed, tuple(plan.members[i] for i in state.active))
            groups = cohorts(plan, state.active, rng.at(state.epoch))
            steps = max(cohort.steps for cohort in groups)
            while state.step < steps:
                with team.step(state.epoch * plan.steps + state.step):
                    _step(state, plan, groups, rng.at(state.epoch, state.step), team)
                if state.step < steps:
                    saver.after_step(state)
            _end_epoch(state, plan, team)
            bar(1, lambda: f"loss {state.train[state.epoch - 1].nanmean():.4g}")
            saver.after_step(state)


def _step(state: State, plan: Plan, groups: Sequence[Cohort], rng: Rng, team: Team) -> None:
    """One update of every active member whose epoch is not over."""
    before, stored = set(state.memory), []
    for cohort in groups:
        if state.step >= cohort.steps:
            continue
        groups_of = (state.weights, state.memory, state.average)
        weights, memory, average = (state.part(group, cohort.part) for group in groups_of)
        batch = make_batch(plan, cohort, state.epoch, state.step)
        batch = replace(batch, memory=memory, averaged=average or None)
        whole = len(groups) == 1
        optimizer = state.optimizer if whole else state.optimizer.members(cohort.part)
        optimizer.steps = batch.step
        rate = plan.learning_rate * plan.schedule(batch.step, batch.total)
        losses = advance(plan, weights, optimizer, batch, rng.of(cohort.part), rate, team)
        state.sums[cohort.part] += losses * cohort.share(plan, batch)
        if plan.average is not None:
            _average(average, weights, plan.average(batch.step, batch.total), batch.step)
        stored.append({name: memory[name] for name in memory if name not in before})
    _remember(state, stored, len(groups))
    state.step += 1


@torch.no_grad()
def _average(
    average: dict[str, Tensor], weights: dict[str, Tensor], decay: float, step: int
) -> None:
    """Move averages towards the weights: their plain mean until that is slower than the decay.

    The statistics of BatchNorm are averaged too; counters are copied.
    """
    share = 1 - min(decay, step / (step + 1))
    for name, tensor in average.items():
        if tensor.is_floating_point():
            tensor.lerp_(weights[name], share)
        else:
            tensor.copy_(weights[name])


def _remember(state: State, stored: list[dict[str, Tensor]], groups: int) -> None:
    """Put together what the loss of each cohort began to store; it changes it in place then."""
    for name in stored[0]:
        parts = [part[name] for part in stored if name in part]
        if len(parts) < groups or len({part.shape[1:] for part in parts}) > 1:
            raise NescioError(
                f"the loss stores {name!r}, of another size or at another time for members with "
                "other numbers of rows; give the members equally many rows, or the loss a fixed "
                "size (pool=)"
            )
        if name not in state.memory:
            state.memory[name] = torch.cat(parts)


@torch.no_grad()
def _end_epoch(state: State, plan: Plan, team: Team) -> None:
    if not math.isfinite(state.sums.sum().item()):
        raise _lost(state, plan, state.sums, "the loss")
    if len(state.active) == len(plan.members):
        state.train[state.epoch] = state.sums
    else:
        state.train[state.epoch, state.active] = state.sums
    state.sums.zero_()
    if plan.validates:
        _validate(state, plan, team)
    state.settle()
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


def _validate(state: State, plan: Plan, team: Team) -> None:
    index = torch.tensor(state.active, device=state.sums.device)

    @torch.no_grad()  # each thread has its own switch
    def judge(some: list[int]) -> Tensor:
        weights = {n: tensor[some[0] : some[-1] + 1] for n, tensor in state.answering.items()}
        forward = Forward(plan.architecture, weights)
        return _validation_score(plan, forward, [state.active[place] for place in some])

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
    for name, tensor in state.answering.items():
        state.best[name][winners] = tensor[better].detach()
    late = state.epoch - state.best_epoch[index] >= plan.patience
    if late.any():
        state.stopped[index[late]] = state.epoch + 1
        state.drop(late)


def _validation_score(plan: Plan, forward: Forward, members: list[int]) -> Tensor:
    """Mean score of each member on validation data, in evaluation mode, in bounded pieces."""
    total = torch.zeros(len(members), dtype=plan.dtype, device=plan.data[0].device)
    labels = torch.zeros(len(members), dtype=torch.long, device=total.device)
    for x, y, real in validation_pieces(plan, members):
        scores, counted = plan.loss.totals(forward(x), y, real)
        total, labels = total + scores, labels + counted
    return total / labels
