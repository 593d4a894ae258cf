"""What a loss is: `(forward, batch, rng) -> (M,)`, one number per member."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from torch import Tensor

from nescio.core import Head, NescioError, Rng, Slope, categorical
from nescio.core.registry import losses
from nescio.nets.stack import Forward

Score = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (M, *batch)
Wanted = tuple[Tensor, Callable[[Tensor], None]]  # an input, and who takes its gradient
Step = Callable[[Forward, "Batch", Rng], Tensor]  # -> (M,)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One training batch of every member, and what losses ask about the training set."""

    x: Tensor  # (M, B, ...)
    y: Tensor  # (M, B) labels or (M, B, D) targets
    points: int  # size of the training set
    low: Tensor  # smallest and largest training value of each feature
    high: Tensor
    steps: int = 1  # batches per epoch
    step: int = 0  # of the whole run, counted from 0
    total: int = 1  # steps of the whole run
    memory: dict[str, Tensor] = field(default_factory=dict)  # stored between steps, (M, ...) each
    wanted: list["Wanted"] = field(default_factory=list)  # gradients to hand back after the step

    def member(self, index: int) -> "Batch":
        """The batch of one member alone."""
        part = slice(index, index + 1)
        memory = {name: tensor[part] for name, tensor in self.memory.items()}
        return replace(self, x=self.x[part], y=self.y[part], memory=memory, wanted=[])


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A training objective; `score` is its data term for each sample, also used for validation."""

    description: str
    head: Head
    score: Score
    step: Step
    slope: Slope | None = None  # of a plain mean of scores: scores and derivatives in closed form

    def __call__(self, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return self.step(forward, batch, rng)

    def with_step(self, description: str, step: Step) -> "Loss":
        """Another objective with this data term."""
        return replace(self, description=description, step=step, slope=None)


def as_loss(loss: object) -> Loss:
    """A loss, or a plain function `(forward, batch, rng) -> (M,)` of classes as one."""
    if isinstance(loss, Loss):
        return loss
    name = getattr(loss, "__name__", type(loss).__name__)
    if name in losses or not inspect.isfunction(loss):
        raise NescioError(
            f"loss must be a loss such as losses.nll(), got {name}; call it: losses.{name}()"
            if name in losses
            else f"loss must be a loss such as losses.nll(), or a function, got {name}"
        )
    head = categorical()
    text = f"{loss.__module__}.{loss.__qualname__}"
    return Loss(description=text, head=head, score=head.nll, step=loss)


def pointwise(name: str, head: Head, score: Score, slope: Slope | None = None) -> Loss:
    """A loss that is the mean of a score over the samples of the batch."""

    def step(forward: Forward, batch: Batch, _: Rng) -> Tensor:
        return score(forward(batch.x), batch.y).flatten(1).mean(1)

    options = ", ".join(f"{key}={value!r}" for key, value in head.options.items())
    text = f"{name}({head.name}({options}))"
    return Loss(description=text, head=head, score=score, step=step, slope=slope)


def plus(base: Loss, description: str, term: Step) -> Loss:
    """`base` with another term added to it."""

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return base(forward, batch, rng) + term(forward, batch, rng)

    return base.with_step(description, step)
