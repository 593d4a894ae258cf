"""Evidential classification (Sensoy et al., 2018): concentrations are evidence + 1.

The data term is the mean over draws of the Dirichlet of the squared error or of the cross-entropy.
A penalty takes away evidence for wrong classes: KL(Dir(a~) || Dir(1)), where a~ is the
concentrations with that of the label set to 1. Its weight grows from 0 over the first epochs.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Head, NescioError, Rng, heads
from nescio.core.registry import losses
from nescio.losses.divergences import differentiable, expected_nll, from_flat
from nescio.losses.loss import Batch, Loss, pointwise
from nescio.nets.stack import Forward


@losses.register
def evidential(
    head: Head | None = None,
    *,
    form: str = "squared_error",
    weight: float = 1.0,
    annealing: float = 10.0,
    ignore_index: int | None = None,
) -> Loss:
    """Mean squared error, or cross-entropy, over draws, and a penalty of evidence that misleads.

    head: how outputs become concentrations; None: exp of the outputs + 1; with softplus, evidence
      grows too slowly to learn well.
    form: "squared_error" (equation 5), or "cross_entropy" (equation 4).
    weight: final weight of the penalty.
    annealing: number of epochs in which the weight grows from 0. A single step of a stepper counts
      as an epoch.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    head = head or heads.dirichlet(activation="exp", floor=1.0)
    if head.log_concentrations is None:
        raise NescioError(f"evidential reads concentrations, and the {head.name} head gives none")
    if form not in FORM:
        raise NescioError(f"form must be 'squared_error' or 'cross_entropy', got {form!r}")
    if not (0 <= weight < math.inf and 0 <= annealing < math.inf):
        raise NescioError(f"weight and annealing must be from 0 up, got {weight} and {annealing}")
    read, data = head.log_concentrations, FORM[form]

    def score(outputs: Tensor, labels: Tensor) -> Tensor:
        return data(read(outputs), labels)

    def step(forward: Forward, batch: Batch, _: Rng) -> Tensor:
        logs = read(forward(batch.x))
        grown = min(1.0, batch.step / (batch.steps * annealing)) if annealing else 1.0
        penalty = misleading(logs, batch.y)
        return batch.mean(data(logs, batch.y) + weight * grown * penalty)

    base = pointwise("evidential", head, score)
    text = f"{base.description[:-1]}, {form=}, {weight=}, {annealing=})"
    return base.with_step(text, step, weighted=base.weighted).ignoring(ignore_index)


def _squared_error(logs: Tensor, labels: Tensor) -> Tensor:
    """The sum over classes of (y - p)^2 + p (1 - p) / (precision + 1)."""
    exact = logs.double()
    total = exact.logsumexp(-1, keepdim=True)
    probs = (exact - total).exp()
    label = F.one_hot(labels, probs.shape[-1])
    spread = probs * (1 - probs) * torch.sigmoid(-total)
    return ((label - probs).square() + spread).sum(-1).to(logs.dtype)


FORM = {"squared_error": _squared_error, "cross_entropy": differentiable(expected_nll)}


def misleading(logs: Tensor, labels: Tensor) -> Tensor:
    """KL(Dir(a~) || Dir(1)): how much evidence there is for classes other than the label."""
    return differentiable(from_flat)(logs.scatter(-1, labels[..., None], 0.0))
