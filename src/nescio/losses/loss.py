"""What a loss is: `(forward, batch, rng) -> (M,)`, one number per member."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import (
    Head,
    Inputs,
    NescioError,
    Rng,
    Slope,
    categorical,
    fixed_variance,
    only_tensor,
)
from nescio.core.registry import losses
from nescio.data.ranges import Units
from nescio.nets.stack import Forward, Stack, Tensors

Score = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (M, *batch)
Wanted = tuple[Tensor, Callable[[Tensor], None]]  # an input, and who takes its gradient
Step = Callable[[Forward, "Batch", Rng], Tensor]  # -> (M,)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One training batch of every member, and what losses ask about the training set."""

    x: Tensor  # (M, B, ...)
    y: Tensor  # (M, B) labels or (M, B, D) targets
    points: int | Tensor  # size of the training set; where members differ, of each (M,)
    low: Tensor  # smallest and largest training value of each feature; with rows, (M, 1, ...)
    high: Tensor
    weight: Tensor | None = None  # (M, B); None: all samples count alike
    index: Tensor | None = None  # (M, B) which samples of the training set they are
    steps: int = 1  # batches per epoch
    step: int = 0  # of the whole run, counted from 0
    total: int = 1  # steps of the whole run
    memory: dict[str, Tensor] = field(default_factory=dict)  # stored between steps, (M, ...) each
    wanted: list["Wanted"] = field(default_factory=list)  # gradients to hand back after the step

    def members(self, part: slice) -> "Batch":
        """The batch of some members."""
        memory = {name: tensor[part] for name, tensor in self.memory.items()}
        own = {"x": self.x[part], "y": self.y[part], "memory": memory, "wanted": []}
        own |= {name: getattr(self, name)[part] for name in self._by_member()}
        return replace(self, **own)  # type: ignore[arg-type]

    def mean(self, scores: Tensor) -> Tensor:
        """The weighted mean `(M,)` of scores `(M, B)`; 0 where all weights are 0."""
        if self.weight is None:
            return scores.flatten(1).mean(1)
        kept = torch.where(self.weight > 0, scores, 0.0)
        total = self.weight.sum(1)
        return (self.weight * kept).sum(1) / torch.where(total > 0, total, 1.0)

    def _by_member(self) -> list[str]:
        """The fields, beside x and y, that have a member axis here."""
        optional = [name for name in ("index", "weight") if getattr(self, name) is not None]
        ends = ["low", "high"] if self.low.ndim == self.x.ndim else []
        return [*optional, *ends, *(["points"] if isinstance(self.points, Tensor) else [])]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A training objective; `score` is its data term for each sample, also used for validation."""

    description: str
    head: Head
    score: Score
    step: Step
    slope: Slope | None = None  # of a plain mean of scores: scores and derivatives in closed form
    weighted: bool = (
        False  # samples of weight 0 change nothing, and no draw depends on their number
    )

    def __call__(self, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return self.step(forward, batch, rng)

    def with_step(self, description: str, step: Step, *, weighted: bool = False) -> "Loss":
        """Another objective with this data term."""
        return replace(self, description=description, step=step, slope=None, weighted=weighted)


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
        return batch.mean(score(forward(batch.x), batch.y))

    options = ", ".join(f"{key}={value!r}" for key, value in head.options.items())
    text = f"{name}({head.name}({options}))"
    return Loss(description=text, head=head, score=score, step=step, slope=slope, weighted=True)


def plus(base: Loss, description: str, term: Step, *, of_weights: bool = False) -> Loss:
    """`base` with another term added to it.

    of_weights: whether the term depends on the weights of the network alone, not on samples.
    """

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return base(forward, batch, rng) + term(forward, batch, rng)

    return base.with_step(description, step, weighted=base.weighted and of_weights)


@losses.register
def squared_error(head: Head | None = None) -> Loss:
    """(y - mean)^2, summed over targets and averaged over samples; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "squared_error", head, lambda outputs, y: (y - head.center(outputs)).square().sum(-1)
    )


def regression(head: Head | None) -> Head:
    """A head with a mean; a fixed variance where none is given."""
    head = head or fixed_variance()
    if head.task != "regression":
        raise NescioError(
            f"this error needs a regression head, got {head.name}; for classes use losses.brier()"
        )
    return head


@losses.register
def absolute_error(head: Head | None = None) -> Loss:
    """|y - mean|, summed over targets and averaged over samples; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "absolute_error", head, lambda outputs, y: (y - head.center(outputs)).abs().sum(-1)
    )


@losses.register
def brier(head: Head | None = None) -> Loss:
    """Sum over classes of (p - onehot)^2, averaged over samples; not divided by the classes."""
    head = head or categorical()
    if head.task != "classification":
        raise NescioError(f"the Brier score needs class probabilities, the head is {head.name}")

    def score(outputs: Tensor, labels: Tensor) -> Tensor:
        probs = head.center(outputs).exp()
        return (probs - F.one_hot(labels, probs.shape[-1])).square().sum(-1)

    return pointwise("brier", head, score)


@losses.register
def nll(head: Head | None = None) -> Loss:
    """Negative log-likelihood in nats, summed over targets and averaged over samples."""
    head = head or categorical()
    return pointwise("nll", head, head.nll, head.nll_slope)


def in_units(units: Units, loss: Loss) -> Loss:
    """A loss that reads inputs in `units`, for networks that read them as they are."""
    if units.natural:
        return loss

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        behind = replace(forward, architecture=_Behind(forward.architecture, units))
        low, high = units.shares(batch.low), units.shares(batch.high)
        return loss(behind, replace(batch, x=units.shares(batch.x), low=low, high=high), rng)

    text = f"{loss.description} in {units.description}"
    return loss.with_step(text, step, weighted=loss.weighted)


class _Behind(Stack):
    """Networks that are given inputs in units."""

    def __init__(self, inner: Stack, units: Units) -> None:
        self.inner, self.units = inner, units
        self.net, self.trained, self._layers = inner.net, inner.trained, inner._layers

    def __call__(self, tensors: Tensors, x: Inputs, rng: Rng | None = None) -> Tensor:
        return self.inner(tensors, self.units.inputs(only_tensor(x, "a loss")), rng)
