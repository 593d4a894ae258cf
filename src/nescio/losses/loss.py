"""What a loss is: `(forward, batch, rng) -> (M,)`, one number per member."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import (
    Head,
    Inputs,
    NescioError,
    Rng,
    Schedule,
    Slope,
    categorical,
    check_ignore_index,
    fixed_variance,
    only_tensor,
    without_ignored,
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
    y: Tensor  # (M, B) labels, (M, B, H, W) label maps, or (M, B, D) targets
    points: int | Tensor  # size of the training set; where members differ, of each (M,)
    low: Tensor  # smallest and largest training value of each feature; with rows, (M, 1, ...)
    high: Tensor
    weight: Tensor | None = None  # (M, B), or one for each label; None: all count alike
    index: Tensor | None = None  # (M, B) which samples of the training set they are
    data_points: int = 0  # size of the data that `index` counts, of all members
    unlabeled: Tensor | None = None  # (M, U, ...) inputs without labels
    unlabeled_index: Tensor | None = None  # (M, U) which of these inputs they are
    unlabeled_points: int = 0  # how many there are in all
    original: Tensor | None = None  # (M, B, ...) x before the augmentation
    unlabeled_original: Tensor | None = None
    augment: Callable[[Tensor, Rng], Tensor] | None = None  # None: there is none
    averaged: Tensors | None = None  # (M, ...) each, the moving average of the weights
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
        if self.averaged is not None:
            own["averaged"] = {name: tensor[part] for name, tensor in self.averaged.items()}
        return replace(self, **own)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """The size of the training set, where it is the same for all members."""
        if isinstance(self.points, Tensor):
            raise NescioError("members have different numbers of samples; read batch.points")
        return self.points

    def _by_member(self) -> list[str]:
        """The fields, beside x and y, that have a member axis here."""
        names = "index", "weight", "unlabeled", "unlabeled_index", "original", "unlabeled_original"
        optional = [name for name in names if getattr(self, name) is not None]
        ends = ["low", "high"] if self.low.ndim == self.x.ndim else []
        return [*optional, *ends, *(["points"] if isinstance(self.points, Tensor) else [])]

    @property
    def inputs(self) -> Tensor:
        """All inputs, `(M, B + U, ...)`: those with labels, then those without."""
        return self.x if self.unlabeled is None else torch.cat([self.x, self.unlabeled], 1)

    def again(self, name: str, rng: Rng) -> "Batch":
        """The same samples with other augmentations, a function of `name` too, as Forward.again.

        rng: that of the step. Without augmentations it is the same batch.
        """
        if self.augment is None or self.original is None:
            return self
        if self.y.ndim == 4:
            raise NescioError(
                "augmentations move the pixels of label maps, so the answers of two views are not "
                "those of the same pixels; leave augment= out here: dropout makes the passes differ"
            )
        draws, without = rng.again(name), self.unlabeled_original
        if without is not None:
            without = self.augment(without, draws.again("unlabeled"))
        return replace(self, x=self.augment(self.original, draws), unlabeled=without)

    def counting(self, ignore_index: int | None) -> "Batch":
        """The same with ignored labels as class 0 of weight 0."""
        y, counts = without_ignored(self.y, ignore_index)
        if counts is None:
            return self
        weight = counts.to(self.x.dtype)
        return replace(self, y=y, weight=weight if self.weight is None else self._spread(weight))

    def _spread(self, values: Tensor) -> Tensor:
        """Values `(M, B, ...)` times the weights, of samples or of labels."""
        if self.weight is None:
            return values
        return values * self.weight.reshape(
            *self.weight.shape, *(1,) * (values.ndim - self.weight.ndim)
        )

    def mean(self, scores: Tensor) -> Tensor:
        """The weighted mean `(M,)` of scores `(M, B, ...)`, of a member without weights 0.

        All losses average by it, so that samples and labels without weight count in none. Scores
        of unlabeled inputs may follow, `(M, B + U, ...)`; each counts 1.
        """
        if self.weight is None:
            return scores.flatten(1).mean(1)
        weights, labeled = torch.ones_like(scores), self.weight.shape[1]
        weights[:, :labeled] = self._spread(weights[:, :labeled])
        scores = torch.where(weights > 0, scores, 0.0) * weights
        total = weights.flatten(1).sum(1)
        return scores.flatten(1).sum(1) / torch.where(total > 0, total, 1.0)

    def total_weight(self) -> Tensor:
        """How much the batch counts for each member, `(M,)`: the number of labels by default."""
        return self._spread(torch.ones_like(self.y, dtype=self.x.dtype)).flatten(1).sum(1)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A training objective; `score` is its data term for each label, also used for validation.

    Labels that equal `ignore_index` are left out, before they come to `step` or `score`.
    """

    description: str
    head: Head
    score: Score
    step: Step
    slope: Slope | None = None  # of a plain mean of scores: scores and derivatives in closed form
    weighted: bool = False  # a sample of weight 0 changes nothing: no loss, no statistic, no draw
    ignore_index: int | None = None  # a label that is not a class; None: all labels count
    average: Schedule | None = None  # the decay of the moving average of weights that it reads
    decay: float | None = None  # times the sum of squares of the weights; None: other terms too

    def __call__(self, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return self.step(forward, batch.counting(self.ignore_index), rng)

    def totals(
        self, outputs: Tensor, y: Tensor, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The sum of the scores of the labels that count, and their number, `(M,)` each.

        real: `(M, B)`, which samples there are; None: all of them.
        """
        y, counts = without_ignored(y, self.ignore_index)
        scores = self.score(outputs, y)
        if counts is None:
            counts = torch.ones_like(scores, dtype=torch.bool)
        if real is not None:
            counts = counts & real.reshape(*real.shape, *(1 for _ in counts.shape[2:]))
        kept = torch.where(counts, scores, 0.0)
        return kept.flatten(1).sum(1), counts.flatten(1).sum(1)

    def ignoring(self, ignore_index: int | None) -> "Loss":
        """The same loss without the labels that equal `ignore_index`; None: as it is."""
        index = check_ignore_index(ignore_index)
        if index is None or index == self.ignore_index:
            return self
        if self.ignore_index is not None:
            raise NescioError(
                f"the loss ignores label {self.ignore_index} already, and now {index}; say it once"
            )
        if self.head.task != "classification":
            raise NescioError(
                f"ignore_index is a class label to leave out; the {self.head.name} head has none"
            )
        text = f"{self.description} ignoring {index}"
        return replace(self, description=text, slope=None, ignore_index=index)

    def with_step(self, description: str, step: Step, *, weighted: bool = False) -> "Loss":
        """Another objective with this data term."""
        changed: dict[str, Any] = {"slope": None, "weighted": weighted, "decay": None}
        return replace(self, description=description, step=step, **changed)


def as_loss(loss: object, head: Head | None = None) -> Loss:
    """A loss, or a plain function `(forward, batch, rng) -> (M,)` as one, of classes by default.

    head: of a function; a loss has its own, which must then be this one.
    """
    if isinstance(loss, Loss):
        own = loss.head
        if head is not None and (head.name, head.options) != (own.name, own.options):
            raise NescioError(
                f"the loss has the head {own.name} and head= says {head.name}; give the head to "
                f"the loss, as in losses.nll(head), and leave head= out"
            )
        return loss
    name = getattr(loss, "__name__", type(loss).__name__)
    if name in losses or not inspect.isfunction(loss):
        raise NescioError(
            f"loss must be a loss such as losses.nll(), got {name}; call it: losses.{name}()"
            if name in losses
            else f"loss must be a loss such as losses.nll(), or a function, got {name}"
        )
    head = head or categorical()
    text = f"{loss.__module__}.{loss.__qualname__}"
    text = text if head.name == "categorical" else f"{text}({named_head(head)})"
    return Loss(description=text, head=head, score=head.nll, step=_weighing(loss, name))


class _Watched(Batch):
    """A batch that knows whether somebody has read its weights."""

    def __getattribute__(self, name: str) -> Any:
        if name == "weight":
            object.__setattr__(self, "was_read", True)
        return super().__getattribute__(name)


def _weighing(function: Step, name: str) -> Step:
    """A function of the user, refused where it trains on labels that do not count."""

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        if batch.weight is None:
            return function(forward, batch, rng)
        watched = _Watched(**{field.name: getattr(batch, field.name) for field in fields(batch)})
        losses = function(forward, watched, rng)
        if not getattr(watched, "was_read", False):
            raise NescioError(
                f"{name} reads no weights, so it would train on ignored labels, which come as "
                "class 0 of weight 0; average its scores (members, samples, ...) by "
                "batch.mean(scores)"
            )
        return losses

    return step


def pointwise(name: str, head: Head, score: Score, slope: Slope | None = None) -> Loss:
    """A loss that is the mean of a score over the samples, or labels, of the batch."""

    def step(forward: Forward, batch: Batch, _: Rng) -> Tensor:
        outputs = forward(batch.x)
        scores = score(outputs, batch.y)
        if not isinstance(scores, Tensor) or scores.shape != outputs.shape[:-1]:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise NescioError(
                f"{name} of the head {head.name} must give one score per sample, of shape "
                f"{tuple(outputs.shape[:-1])} for outputs {tuple(outputs.shape)}, got {got}"
            )
        return batch.mean(scores)

    return Loss(
        description=f"{name}({named_head(head)})",
        head=head,
        score=score,
        step=step,
        slope=slope,
        weighted=True,
        decay=0.0,
    )


def named_head(head: Head) -> str:
    """A head in words: its name and options."""
    return f"{head.name}({', '.join(f'{key}={value!r}' for key, value in head.options.items())})"


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
def brier(head: Head | None = None, *, ignore_index: int | None = None) -> Loss:
    """Sum over classes of (p - onehot)^2, averaged over samples; not divided by the classes.

    ignore_index: the label of what is left out, one that is not a class.
    """
    head = head or categorical()
    if head.task != "classification":
        raise NescioError(f"the Brier score needs class probabilities, the head is {head.name}")

    def score(outputs: Tensor, labels: Tensor) -> Tensor:
        probs = head.center(outputs).exp()
        return (probs - F.one_hot(labels, probs.shape[-1])).square().sum(-1)

    return pointwise("brier", head, score).ignoring(ignore_index)


@losses.register
def nll(head: Head | None = None, *, ignore_index: int | None = None) -> Loss:
    """Negative log-likelihood in nats, summed over targets and averaged over samples.

    ignore_index: the label of what is left out, one that is not a class.
    """
    head = head or categorical()
    return pointwise("nll", head, head.nll, head.nll_slope).ignoring(ignore_index)


def in_units(units: Units, loss: Loss) -> Loss:
    """A loss that reads inputs in `units`, for networks that read them as they are."""
    if units.natural:
        return loss

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        behind = replace(forward, architecture=_Behind(forward.architecture, units))
        low, high = units.shares(batch.low), units.shares(batch.high)
        draw, without = batch.augment, batch.unlabeled
        own = replace(
            batch,
            x=units.shares(batch.x),
            low=low,
            high=high,
            unlabeled=None if without is None else units.shares(without),
            augment=None if draw is None else lambda x, chance: units.shares(draw(x, chance)),
        )
        return loss(behind, own, rng)

    text = f"{loss.description} in {units.description}"
    return loss.with_step(text, step, weighted=loss.weighted)


class _Behind(Stack):
    """Networks that are given inputs in units."""

    def __init__(self, inner: Stack, units: Units) -> None:
        self.inner, self.units = inner, units
        self.net, self.trained, self._layers = inner.net, inner.trained, inner._layers

    def __call__(self, tensors: Tensors, x: Inputs, rng: Rng | None = None) -> Tensor:
        return self.inner(tensors, self.units.inputs(only_tensor(x, "a loss")), rng)
