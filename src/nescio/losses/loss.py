"""What a loss is: `(forward, batch, rng) -> (M,)`, one number per member."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import count
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
from nescio.losses.batch import Batch as Batch
from nescio.nets.stack import Forward, Stack, Tensors

Score = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (M, *batch)
Noisy = Callable[[Tensor, Tensor, Rng], Tensor]  # the same, with noise
Step = Callable[[Forward, Batch, Rng], Tensor]  # -> (M,)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A training objective; `score` is its data term for each label, also used for validation.

    Labels that equal `ignore_index` are left out, before they come to `step` or `score`.

    description: the loss and its options as text, which is stored with models.
    head: how outputs are read.
    score: a function of outputs and targets to one number per label.
    step: a function `(forward, batch, rng)` to one number per member, `(M,)`, which is minimized.
    slope: scores and derivatives in closed form, of a plain mean of scores; None: by autograd.
    weighted: whether a sample of weight 0 changes nothing: no loss, no statistic, no draw.
    ignore_index: a label that is not a class; None: all labels count.
    average: decay of the moving average of the weights that it reads, by step; None: it reads none.
    decay: factor of the sum of squares of the weights; None: there are other terms, too.
    """

    description: str
    head: Head
    score: Score
    step: Step
    slope: Slope | None = None
    weighted: bool = False
    ignore_index: int | None = None
    average: Schedule | None = None
    decay: float | None = None

    def __call__(self, forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        """The loss of each member, `(M,)`.

        forward: the networks, a function of inputs `(M, B, ...)`.
        batch: the training batch.
        rng: the random numbers of the step.
        """
        return self.step(forward, batch.counting(self.ignore_index), rng)

    def totals(
        self, outputs: Tensor, y: Tensor, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The sum of the scores of the labels that count, and their number, `(M,)` each.

        outputs: outputs of the networks, `(M, B, ...)`.
        y: labels or targets, `(M, B, ...)`.
        real: which samples there are, `(M, B)`; None: all of them.
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
        """Another objective with this data term.

        description: the loss and its options as text.
        step: a function `(forward, batch, rng)` to one number per member, `(M,)`.
        weighted: whether a sample of weight 0 changes nothing.
        """
        changed: dict[str, Any] = {"slope": None, "weighted": weighted, "decay": None}
        return replace(self, description=description, step=step, **changed)


def as_loss(loss: object, head: Head | None = None) -> Loss:
    """A loss, or a plain function `(forward, batch, rng) -> (M,)` as one, of classes by default.

    loss: the loss, or the function.
    head: how outputs are read for a function, None: class logits; a loss has its own, which must
      then be this one.
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


def pointwise(
    name: str, head: Head, score: Score, slope: Slope | None = None, noisy: Noisy | None = None
) -> Loss:
    """A loss that is the mean of a score over the samples, or labels, of the batch.

    name: name of the loss.
    head: how outputs are read.
    score: a function of outputs and targets to one number per label.
    slope: scores and derivatives in closed form; None: by autograd.
    noisy: the score in training, where it draws random numbers; None: it is the same.
    """

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        outputs = forward(batch.x)
        scores = noisy(outputs, batch.y, rng) if noisy else score(outputs, batch.y)
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
        weighted=noisy is None,
        decay=0.0,
    )


def named_head(head: Head) -> str:
    """A head in words: its name and options."""
    return f"{head.name}({', '.join(f'{key}={value!r}' for key, value in head.options.items())})"


def plus(base: Loss, description: str, term: Step, *, of_weights: bool = False) -> Loss:
    """`base` with another term added to it.

    base: the loss that the term is added to.
    description: the new loss and its options as text.
    term: a function `(forward, batch, rng)` to one number per member, `(M,)`.
    of_weights: whether the term depends on the weights of the network alone, not on samples.
    """

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        return base(forward, batch, rng) + term(forward, batch, rng)

    return base.with_step(description, step, weighted=base.weighted and of_weights)


@losses.register
def squared_error(head: Head | None = None) -> Loss:
    """(y - mean)^2, summed over targets and averaged over samples; the spread is not trained.

    head: how outputs are read, a regression; None: means, with a fixed variance.
    """
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
    """|y - mean|, summed over targets and averaged over samples; the spread is not trained.

    head: how outputs are read, a regression; None: means, with a fixed variance.
    """
    head = regression(head)
    return pointwise(
        "absolute_error", head, lambda outputs, y: (y - head.center(outputs)).abs().sum(-1)
    )


@losses.register
def brier(head: Head | None = None, *, ignore_index: int | None = None) -> Loss:
    """Sum over classes of (p - onehot)^2, averaged over samples; not divided by the classes.

    head: how outputs are read; None: class logits.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
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

    head: how outputs are read; None: class logits.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    head = head or categorical()
    noisy = None if head.noisy_nll is None else partial(_noisy, head.noisy_nll)
    return pointwise("nll", head, head.nll, head.nll_slope, noisy).ignoring(ignore_index)


def _noisy(nll: Callable[..., Tensor], outputs: Tensor, y: Tensor, rng: Rng) -> Tensor:
    """Scores with noise of this step, another one at each call."""
    counted = count()
    return nll(outputs, y, lambda shape: rng.normal(shape, f"logits {next(counted)}", like=outputs))


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
