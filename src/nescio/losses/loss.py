"""What a loss is: `(forward, batch, rng) -> (M,)`, one number a member."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from nescio.heads import Head, Slope
from nescio.randomness import Rng
from nescio.stacking import Forward

Score = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (M, *batch)
Step = Callable[[Forward, "Batch", Rng], Tensor]  # -> (M,)


@dataclass(frozen=True)
class Batch:
    """One training batch of every member, and what losses ask about the training set."""

    x: Tensor  # (M, B, ...)
    y: Tensor  # (M, B) labels or (M, B, D) targets
    points: int  # size of the training set
    low: Tensor  # smallest and largest training value of each feature
    high: Tensor


@dataclass(frozen=True)
class Loss:
    """A training objective; `score` is its data term for each case, also used for validation."""

    description: str
    head: Head
    score: Score
    step: Step
    slope: Slope | None = None  # of a plain mean of scores: scores and derivatives in closed form

    def __call__(self, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return self.step(forward, batch, rng)


def pointwise(name: str, head: Head, score: Score, slope: Slope | None = None) -> Loss:
    """A loss that is the mean of a score over the cases of the batch."""

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        del rng
        scores = score(forward(batch.x), batch.y)
        return scores.flatten(1).mean(1)

    options = ", ".join(f"{key}={value!r}" for key, value in head.options.items())
    return Loss(f"{name}({head.name}({options}))", head, score, step, slope)


def plus(base: Loss, description: str, term: Step) -> Loss:
    """`base` with another term added to it."""

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return base(forward, batch, rng) + term(forward, batch, rng)

    return Loss(description, base.head, base.score, step)
