"""A training state that continues with new or changed data, an update at a time, M members at once.

An update is a function of the state and the batch alone: its draws are those of (seed, member,
step), so a state that was saved and loaded continues to the same bits.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from nescio.core import Head, NescioError, Prediction, Rng, one_thread
from nescio.losses import Batch, Loss, Step, as_loss, nll
from nescio.models import Model, as_head, same_head
from nescio.nets.stack import Dense, Stack, dense
from nescio.training.optimizers import Optimizer
from nescio.training.optimizers import optimizer as fresh
from nescio.training.options import check_weighted, member_numbers, positive, whole
from nescio.training.prepare import make_members, starting_weights
from nescio.training.step_inputs import Samples, StepInputs
from nescio.training.team import Team, runs_alone
from nescio.training.update import advance, lost_member

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

    make_net: a factory, called once per member; each call draws its own initial weights.
    loss: a combination from `nescio.losses`, or a function; None: negative log-likelihood.
    head: how outputs are read, a head or its name, if no loss says it or the loss is a function;
      None: class logits.
    members: how many, or which ones by number: member 3 alone is member 3 of an ensemble.
    optimizer: "adam", "sgd" or "lbfgs", with options as in "lbfgs,tolerance=1e-6".
    learning_rate: step size of the optimizer.
    clip: the largest gradient norm of a member; None: any.
    seed: seed of the random draws.
    """
    numbers = member_numbers(members)
    nets = make_members(make_net, numbers, whole("seed", seed))
    weights, trained = starting_weights(nets)
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


P = ParamSpec("P")
T = TypeVar("T")


def _alone(
    method: Callable[Concatenate["Stepper", P], T],
) -> Callable[Concatenate["Stepper", P], T]:
    """One thread at a time: others wait for the end of a step."""

    @wraps(method)
    def run(self: "Stepper", /, *args: P.args, **options: P.kwargs) -> T:
        with self._lock, torch.inference_mode(False):
            return method(self, *args, **options)

    return run


@dataclass(frozen=True, kw_only=True)
class _Learner:
    """What an update reads and does not change."""

    loss: Loss
    architecture: Stack
    by_hand: Dense | None
    clip: float | None
    together: bool
    half: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class Stepper:
    """M networks, their optimizer and its moments; made by `nescio.stepper`, changed by `step`.

    Threads may share it: steps and answers come one after the other.

    net: one of the networks, whose weights are not read.
    loss: the loss of a step, and how outputs are read.
    members: numbers of the members, which fix their random draws.
    weights: parameters and buffers of all members by name, each `(M, ...)`; steps change them in
      place.
    optimizer: the optimizer and its moments.
    learning_rate: step size of the optimizer; it may be changed between steps.
    clip: the largest gradient norm of a member; None: any.
    seed: seed of the random draws.
    rounds: number of steps, where all steps of an epoch of `fit` count as one.
    reading: how inputs and targets are read; None before the first step.
    memory: what the loss stores between steps, by name.
    """

    net: nn.Module
    loss: Loss
    members: tuple[int, ...]
    weights: dict[str, Tensor]
    optimizer: Optimizer
    learning_rate: float
    clip: float | None = None
    seed: int = 0
    rounds: int = 0
    reading: StepInputs | None = None
    memory: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = RLock()
        self._check_settings()
        if self.optimizer.is_exact and self.clip is not None:
            raise NescioError("lbfgs finds its own step lengths: leave clip out, or take adam")

    def _check_settings(self) -> None:
        self.learning_rate = positive("learning_rate", self.learning_rate)
        self.clip = None if self.clip is None else positive("clip", self.clip)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=RLock())

    def __repr__(self) -> str:
        kind, said = type(self.net).__name__, self.loss.description
        return f"Stepper({len(self.members)} member(s) of {kind}, {said}, {self.steps} steps)"

    @property
    def steps(self) -> int:
        """The number of updates so far."""
        return self.optimizer.steps

    @_alone
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
        weight: how much each sample counts, `(N,)` or `(M, N)`, 0 or more; None: all the same.
        points: the size of the training set, for losses that divide by it; N by default.
        loss: another loss for this step, with the same head; None: the stepper's own.
        """
        points = None if points is None else _count("points", points)
        chosen = self._loss(loss, weight)
        inputs, targets, counts, _ = self._read(x, y, weight)
        losses = self._move(chosen, inputs, targets, counts, (0, 1, points))
        self.rounds += 1
        return losses.clone()  # of gradients by hand they are tensors of inference

    @_alone
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
        epochs: number of passes over the data.
        batch_size: samples per step; each member has its own order. None: all samples at once.
        rows: which samples each member reads, `(M, n)` integers; None: all.
        weight: how much each sample counts, `(N,)` or `(M, N)`, 0 or more; None: all the same.
        loss: another loss for these steps, with the same head; None: the stepper's own.
        """
        x, y = _pair(data)
        epochs = _count("epochs", epochs)
        size = None if batch_size is None else _count("batch_size", batch_size)
        chosen = self._loss(loss, weight)
        inputs, targets, counts, own_rows = self._read(x, y, weight, rows)
        samples = inputs.shape[1] if own_rows is None else own_rows.shape[1]
        amount = 0.0 if counts is None else _taken(counts, own_rows).sum(1).clamp_min(TINY)
        means = []
        for _ in range(epochs):
            parts = self._orders(own_rows, samples, size)
            total = torch.zeros(len(self.members), dtype=self._dtype, device=inputs.device)
            for number, index in enumerate(parts):
                some, wanted = _taken(inputs, index), _taken(targets, index)
                count = None if counts is None else _taken(counts, index)
                losses = self._move(chosen, some, wanted, count, (number, len(parts), samples))
                own = some.shape[1] / samples if count is None else count.sum(1) / amount
                total += losses * own
            self.rounds += 1
            means.append(total)
        return torch.stack(means)

    def _orders(self, rows: Tensor | None, count: int, size: int | None) -> list[Tensor | None]:
        """The samples of each step, `(M, B)`; None: all as they are."""
        if size is None or size >= count - 1:
            return [rows]
        order = Rng(self.seed, self.members, (self.rounds,)).orders(count)
        order = order if rows is None else rows.gather(1, order)
        parts = list(order.split(size, 1))
        if parts[-1].shape[1] == 1:  # BatchNorm needs two
            parts[-2:] = [torch.cat(parts[-2:], 1)]
        return list(parts)

    def _read(self, x: Any, y: Any, weight: Any, rows: Any = None) -> Samples:
        """What a step is given, checked; the first inputs tell the shape of all."""
        first = next(t for t in self.weights.values() if t.is_floating_point())
        known = self.reading or StepInputs.of(self.net, self.loss, x, len(self.members), first)
        samples = known.batch(x, y, weight, rows)
        if self.reading is None:
            self.reading = known
        return samples

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

    @property
    def _dtype(self) -> torch.dtype:
        return next(t.dtype for t in self.weights.values() if t.is_floating_point())

    @cached_property
    def _work(self) -> int:
        """Multiply-adds for one sample of what runs in one go, roughly."""
        size = sum(prod(t.shape[1:]) for t in self.weights.values())
        return size * (len(self.members) if self._learner.together else 1)

    def _move(
        self,
        loss: Loss,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        place: tuple[int, int, int | None],  # which step of how many, and the samples of all
    ) -> Tensor:
        number, steps, points = place
        self._check_settings()
        reading, learner = self.reading, self._learner
        assert reading is not None
        learner = learner if loss is self.loss else replace(learner, loss=loss)
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
        self._check_finite(losses, f"the loss at step {self.steps}")
        return losses

    def _loss(self, loss: Loss | Step | None, weight: Any) -> Loss:
        """The loss of a step: the stepper's own, or the one given, if it has the same head.

        It ignores the labels that the stepper's loss ignores.
        """
        head, chosen = self.loss.head, self.loss
        if loss is not None:
            chosen = loss if isinstance(loss, Loss) else as_loss(loss, head)
        if not same_head(chosen.head, head):
            raise NescioError(
                f"the loss of a step must have the head of the stepper, {head.name}, got "
                f"{chosen.head.name}"
            )
        if weight is not None:
            check_weighted(chosen)
        return chosen.ignoring(self.loss.ignore_index)

    def _check_finite(self, values: Tensor, what: str) -> None:
        if (lost := lost_member(values)) is not None:
            raise NescioError(
                f"{what} of member {self.members[lost]} became NaN or infinite; load the state "
                "you saved last, and try a smaller learning_rate, clip=1.0, scaled inputs or a "
                "larger floor"
            )

    @cached_property
    def live(self) -> Model:
        """The networks as they are, as a model that changes with every step."""
        return Model(self.net, self.weights, self.loss.head)

    @_alone
    def __call__(self, x: Any, *, batch_size: int = 1024) -> Prediction:
        """The prediction of the networks as they are now, without dropout.

        x: inputs `(N, ...)`, as the network reads them.
        batch_size: number of samples that the networks read at a time.
        """
        return self.live(x, batch_size=batch_size)

    @_alone
    def model(self) -> Model:
        """The networks as they are now, as a model; later steps do not change it."""
        for name, tensor in self.weights.items():
            self._check_finite(tensor, f"the weights {name}")
        tensors = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        return Model(self.net, tensors, self.loss.head, notes=self.notes)

    @property
    def notes(self) -> dict[str, Any]:
        """How it was made and how far it came; JSON."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        said = {"loss": self.loss.description, "members": list(self.members), **settings}
        return {**said, "optimizer": self.optimizer.name, "steps": self.steps}

    @_alone
    def save(self, path: str | Path) -> Path:
        """Write everything that the next step depends on, but data and loss, into one file.

        `nescio.load(path)` gives it back; with `net=` where nescio cannot build the network, and
        `loss=` where the loss is not the negative log-likelihood of one of its heads.
        """
        from nescio.training import stepper_file

        self._check_settings()
        return stepper_file.write(self, Path(path))


def _pair(data: Any) -> tuple[Any, Any]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise NescioError(f"the data of fit are a pair (x, y), got a {type(data).__name__}")
    return data[0], data[1]


def _count(name: str, value: Any) -> int:
    number = whole(name, value)
    if number < 1:
        raise NescioError(f"{name} must be positive, got {value}")
    return number


def _taken(values: Tensor, index: Tensor | None) -> Tensor:
    """The samples `(M, B, ...)` of values `(M, N, ...)` at an index `(M, B)`; None: all."""
    if index is None:
        return values
    index = index.to(values.device)
    return values[torch.arange(len(values), device=values.device)[:, None], index]
