"""A training state that continues with new or changed data, an update at a time, M members at once.

An update is a function of the state and the batch alone: its draws are those of (seed, member,
step), so a state that was saved and loaded continues to the same bits.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Head,
    NescioError,
    Prediction,
    Rng,
    one_thread,
)
from nescio.losses import Batch, Loss, Step, as_loss, nll
from nescio.models import (
    Model,
    as_head,
    same_head,
)
from nescio.nets import reads_tokens
from nescio.nets.stack import Dense, Stack, dense, stack
from nescio.training.optimizers import Optimizer
from nescio.training.optimizers import optimizer as fresh
from nescio.training.options import as_rows, member_numbers, whole
from nescio.training.prepare import make_members
from nescio.training.step_inputs import StepInputs
from nescio.training.team import Team, runs_alone
from nescio.training.update import advance

TINY = 1e-30  # in place of a sum of weights that is 0
SETTINGS = ("learning_rate", "clip", "seed", "rounds")


def stepper(
    make_net: Callable[[], nn.Module],
    *,
    loss: Loss | Step | None = None,
    head: Head | str | None = None,
    members: int | Sequence[int] = 1,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    clip: float | None = None,
    seed: int = 0,
) -> "Stepper":
    """M networks in training, to be moved one step at a time on whatever data come.

    >>> from nescio import nets
    >>> x, y = torch.rand(32, 4), torch.arange(32) % 3
    >>> state = stepper(lambda: nets.mlp(4, 3, widths=(64,)), members=5, seed=0)
    >>> losses = state.step(x, y)  # (5,), before the step
    >>> state.fit((x, y), epochs=2).shape
    torch.Size([2, 5])
    >>> state.model()(x).probs.shape
    torch.Size([32, 3])

    make_net, loss, members, optimizer, learning_rate, clip, seed: as for `nescio.train`. head: how
    outputs are read where no loss says it, or where the loss is a function; classes by default.
    """
    numbers = member_numbers(members)
    if not numbers or len(set(numbers)) < len(numbers):
        raise NescioError("members must be positive: a number, or different member numbers")
    nets = make_members(make_net, numbers, whole("seed", seed))
    if reads_tokens(nets[0]):
        raise NescioError("a stepper does not train networks that read tokens (an embedding) yet")
    weights = stack(nets)
    trained = [weights[name] for name, p in nets[0].named_parameters() if p.requires_grad]
    if not trained:
        raise NescioError("the network has no weights that require a gradient; nothing to train")
    return Stepper(
        net=nets[0],
        loss=_loss(loss, head, nets[0]),
        members=tuple(numbers),
        weights=weights,
        optimizer=fresh(optimizer, trained),
        learning_rate=learning_rate,
        clip=clip,
        seed=seed,
    )


def _loss(loss: Loss | Step | None, head: Head | str | None, net: nn.Module) -> Loss:
    if loss is None:
        return nll(as_head(head, net))
    return as_loss(loss, None if head is None else as_head(head))


@dataclass(frozen=True, kw_only=True)
class _Learner:
    """What an update reads and does not change."""

    loss: Loss
    architecture: Stack
    by_hand: Dense | None
    clip: float | None
    together: bool


@dataclass(kw_only=True, eq=False, repr=False)
class Stepper:
    """M networks, their optimizer and its moments; made by `nescio.stepper`, changed by `step`."""

    net: nn.Module
    loss: Loss
    members: tuple[int, ...]  # their numbers
    weights: dict[str, Tensor]  # (M, ...) parameters and buffers; steps change them in place
    optimizer: Optimizer
    learning_rate: float  # may be changed between steps
    clip: float | None = None
    seed: int = 0
    rounds: int = 0  # steps, where all steps of an epoch of `fit` count as one
    reading: StepInputs | None = None  # of inputs and targets, from the first step on
    memory: dict[str, Tensor] = field(default_factory=dict)  # what the loss stores between steps

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < torch.inf:
                raise NescioError(f"{name} must be positive, got {value}")
        if self.optimizer.is_exact and self.clip is not None:
            raise NescioError("lbfgs finds its own step lengths: leave clip out, or take adam")

    def __repr__(self) -> str:
        kind, said = type(self.net).__name__, self.loss.description
        return f"Stepper({len(self.members)} member(s) of {kind}, {said}, {self.steps} steps)"

    @property
    def steps(self) -> int:
        """The number of updates so far."""
        return self.optimizer.steps

    @torch.inference_mode(False)
    def step(
        self,
        x: Any,
        y: Any,
        weight: Any = None,
        *,
        points: int | None = None,
        loss: Loss | Step | None = None,
    ) -> Tensor:
        """One update of every member; the losses `(M,)` before it.

        x, y: a batch `(N, ...)` for all members, or `(M, N, ...)` with one for each; `x[rows]` of a
          pool with rows `(M, n)` is one. Labels are integers, regression targets floats.
        weight: how much each sample counts, `(N,)` or `(M, N)`, 0 or more.
        points: the size of the training set, for losses that divide by it; N by default.
        loss: another loss for this step, with the same head.
        """
        reading = self.reading or self._begin(x)
        learner = self._with(loss, weight)
        inputs, targets, counts = reading.batch(x, y, weight)
        losses = self._move(learner, inputs, targets, counts, (0, 1, points))
        self.rounds += 1
        return losses

    @torch.inference_mode(False)
    def fit(
        self,
        data: Any,
        *,
        epochs: int = 1,
        batch_size: int | None = 100,
        rows: Any = None,
        weight: Any = None,
        loss: Loss | Step | None = None,
    ) -> Tensor:
        """Go on for some epochs on data, old or new; the mean loss of each epoch, `(epochs, M)`.

        data: a pair `(x, y)` for all members, `(N, ...)`, or for each, `(M, N, ...)`.
        batch_size: samples per step; each member has its own order. None: all samples at once.
        rows: which samples each member reads, `(M, n)` integers; all by default.
        weight: how much each sample counts, `(N,)` or `(M, N)`.
        """
        x, y = _pair(data)
        reading = self.reading or self._begin(x)
        learner = self._with(loss, weight)
        inputs, targets, counts = reading.batch(x, y, weight)
        chosen = _rows(rows, len(inputs), inputs[0])
        samples = inputs.shape[1] if chosen is None else chosen.shape[1]
        amount = 0.0 if counts is None else _taken(counts, chosen).sum(1).clamp_min(TINY)
        means = []
        for _ in range(_positive("epochs", epochs)):
            parts = self._orders(chosen, inputs.shape[1], batch_size)
            total = torch.zeros(len(self.members), dtype=inputs.dtype, device=inputs.device)
            for number, index in enumerate(parts):
                some, wanted = _taken(inputs, index), _taken(targets, index)
                count = None if counts is None else _taken(counts, index)
                losses = self._move(learner, some, wanted, count, (number, len(parts), samples))
                own = some.shape[1] / samples if count is None else count.sum(1) / amount
                total += losses * own
            self.rounds += 1
            means.append(total)
        return torch.stack(means)

    def _orders(self, rows: Tensor | None, points: int, size: int | None) -> list[Tensor | None]:
        """The samples of each step, `(M, B)`; None: all as they are."""
        count = points if rows is None else rows.shape[1]
        size = count if size is None else _positive("batch_size", size)
        if size >= count - 1:
            return [rows]
        order = Rng(self.seed, self.members, (self.rounds,)).orders(count)
        order = order if rows is None else rows.gather(1, order)
        parts = list(order.split(size, 1))
        if parts[-1].shape[1] == 1:  # BatchNorm needs two
            parts[-2:] = [torch.cat(parts[-2:], 1)]
        return list(parts)

    def _begin(self, x: Any) -> StepInputs:
        self.reading = StepInputs.of(self.net, self.loss, x, len(self.members), self._first)
        if not self._learner.together:  # as in `nescio.train`: equal rounding for any M
            self.optimizer.apart = True
        return self.reading

    @property
    def _first(self) -> Tensor:
        return next(t for t in self.weights.values() if t.is_floating_point())

    @cached_property
    def _learner(self) -> _Learner:
        """What updates read; known after the first inputs."""
        architecture, shape = Stack(self.net), self.reading.shape if self.reading else ()
        return _Learner(
            loss=self.loss,
            architecture=architecture,
            by_hand=dense(architecture, shape),
            clip=self.clip,
            together=architecture.takes(shape),
        )

    @cached_property
    def _work(self) -> int:
        """Multiply-adds for one sample of what runs in one go, roughly."""
        size = sum(prod(t.shape[1:]) for t in self.weights.values())
        return size * (len(self.members) if self._learner.together else 1)

    def _move(
        self,
        learner: _Learner,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        place: tuple[int, int, int | None],  # which step of how many, and the samples of all
    ) -> Tensor:
        number, steps, points = place
        reading = self.reading
        assert reading is not None
        batch = Batch(
            x=x,
            y=y,
            weight=weight,
            points=x.shape[1] if points is None else points,
            low=reading.low,
            high=reading.high,
            steps=steps,
            step=self.rounds * steps + number,  # what losses make of it is the number of epochs
            total=self.rounds * steps + number + 1,
            memory=self.memory,
        )
        rng = Rng(self.seed, self.members, (self.rounds, number))
        alone = runs_alone(self._work * x.shape[1], together=learner.together)
        rule = self.optimizer, batch, rng, self.learning_rate, Team()
        with one_thread() if alone else nullcontext():
            try:
                losses = advance(learner, self.weights, *rule)
            except NescioError:
                raise
            except ValueError as error:  # of the network: BatchNorm, for one, wants two numbers
                raise NescioError(f"the network refuses a batch of {x.shape[1]}: {error}") from None
        if not losses.isfinite().all():
            self._lost(losses, f"the loss at step {self.steps}")
        return losses

    def _with(self, loss: Loss | Step | None, weight: Any) -> _Learner:
        """What an update reads, with another loss where one is given."""
        learner = self._learner
        if loss is not None:
            head = self.loss.head
            other = loss if isinstance(loss, Loss) else as_loss(loss, head)
            if not same_head(other.head, head):
                raise NescioError(
                    f"the loss of a step must have the head of the stepper, {head.name}, got "
                    f"{other.head.name}"
                )
            learner = replace(learner, loss=other)
        if weight is not None and not learner.loss.weighted:
            raise NescioError(
                f"the loss {learner.loss.description} reads no weights of samples; use one of "
                "losses.nll(), brier(), squared_error() and what is made of them"
            )
        return learner

    def _lost(self, values: Tensor, what: str) -> None:
        good = values.isfinite().flatten(1).all(1) if values.ndim > 1 else values.isfinite()
        if not good.all():
            member = self.members[int((~good).nonzero()[0])]
            raise NescioError(
                f"{what} of member {member} became NaN or infinite; load the state you saved last, "
                "and try a smaller learning_rate, clip=1.0, scaled inputs or a larger floor"
            )

    @cached_property
    def live(self) -> Model:
        """The networks as they are, as a model that changes with every step."""
        return Model(self.net, self.weights, self.loss.head)

    def __call__(self, x: Any, *, batch_size: int = 1024) -> Prediction:
        """The prediction of the networks as they are now, without dropout."""
        return self.live(x, batch_size=batch_size)

    def model(self) -> Model:
        """The networks as they are now, as a model; later steps do not change it."""
        for name, tensor in self.weights.items():
            self._lost(tensor, f"the weights {name}")
        tensors = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        return Model(self.net, tensors, self.loss.head, notes=self.notes)

    @property
    def notes(self) -> dict[str, Any]:
        """How it was made and how far it came; JSON."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        said = {"loss": self.loss.description, "members": list(self.members), **settings}
        return {**said, "optimizer": self.optimizer.name, "steps": self.steps}

    def save(self, path: str | Path) -> Path:
        """Write everything that the next step depends on, but data and loss, into one file.

        `nescio.load(path)` gives it back; with `net=` where nescio cannot build the network, and
        `loss=` where the loss is not the negative log-likelihood of one of its heads.
        """
        from nescio.training import stepper_file

        return stepper_file.write(self, Path(path))


def _pair(data: Any) -> tuple[Any, Any]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise NescioError(f"the data of fit are a pair (x, y), got a {type(data).__name__}")
    return data[0], data[1]


def _positive(name: str, value: Any) -> int:
    number = whole(name, value)
    if number < 1:
        raise NescioError(f"{name} must be positive, got {value}")
    return number


def _rows(rows: Any, members: int, x: Tensor) -> Tensor | None:
    """Rows `(M, n)` of samples x `(N, ...)`."""
    each = as_rows(rows, members, x)
    if each is not None and len({len(own) for own in each}) > 1:
        raise NescioError(
            "the members of a stepper have equally many rows; where they differ, give all rows and "
            "weight=(M, N) with zeros"
        )
    return None if each is None else torch.stack(each)


def _taken(values: Tensor, index: Tensor | None) -> Tensor:
    """The samples `(M, B, ...)` of values `(M, N, ...)` at an index `(M, B)`; None: all."""
    if index is None:
        return values
    index = index.to(values.device)
    return values[torch.arange(len(values), device=values.device)[:, None], index]
