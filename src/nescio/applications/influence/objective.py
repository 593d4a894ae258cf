"""What a network is taken to minimize: the mean of a score over the samples, plus weight decay."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import Head, NescioError
from nescio.losses import Loss, as_loss, from_description, nll

DECAY = 1e-4  # of a last layer that is fitted anew and whose training has none, or is not known


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The mean of `loss.score` over the samples, plus `decay` times the sum of squares."""

    loss: Loss
    decay: float
    known: str  # where the loss comes from, in words
    decay_known: str  # and the weight decay

    @property
    def description(self) -> str:
        """The loss and the weight decay, in words."""
        decay = f"weight decay {self.decay:g}, {self.decay_known}"
        return f"{self.loss.description}, {self.known}; {decay}"

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The score of each sample `(N,)` of outputs `(N, O)`."""
        return self.loss.score(outputs[None], targets[None])[0]


def objective_of(
    source: Any, head: Head, loss: Any, weight_decay: float | None, *, refit: bool
) -> Objective:
    """The objective as it was given, else as the model was trained, else the likelihood.

    refit: whether weights are fitted to it, so that it may differ from that of the training.
    """
    said = getattr(source, "loss", None)
    trained = from_description(said) if isinstance(said, str) else None
    if loss is not None:
        chosen, known = as_loss(loss), "as it was given"
    elif trained is not None and trained.decay is not None:
        chosen, known = trained, "as the model was trained"
    elif refit:
        chosen, known = nll(head.standardized or head), "the likelihood"
    else:
        raise NescioError(
            "influence needs to know what the network was trained to minimize; "
            f"{'nobody says it' if said is None else f'the model says {said}'}: give loss=, such "
            "as losses.weight_decay(losses.nll(), strength=1e-4), or refit=True"
        )
    _check(chosen, head)
    if weight_decay is not None and not weight_decay >= 0:
        raise NescioError(f"weight_decay must not be negative, got {weight_decay}")
    decay, decay_known = chosen.decay or 0.0, "that of the loss"
    if weight_decay is not None:
        decay, decay_known = float(weight_decay), "as it was given"
    elif not decay and refit:
        decay, decay_known = DECAY, "by default, as the loss has none"
    return Objective(loss=chosen, decay=decay, known=known, decay_known=decay_known)


def _check(loss: Loss, head: Head) -> None:
    if loss.decay is None:
        raise NescioError(
            f"influence is known for a mean of scores plus weight decay; {loss.description} has "
            "other terms. Give the loss without them, loss=losses.nll() for example; with "
            "parameters='last' and refit=True the last layer is then fitted to it"
        )
    own = head.standardized or head
    if (loss.head.name, dict(loss.head.options)) != (own.name, dict(own.options)):
        raise NescioError(
            f"the loss reads outputs by the head {loss.head.name}, the network has {own.name}; "
            f"give the head to the loss, as in losses.nll(heads.{own.name}())"
        )
    if loss.ignore_index is not None:
        raise NescioError("leave out samples with ignored labels, and ignore_index with them")


def in_training_units(head: Head, targets: Tensor) -> Tensor:
    """The targets as the network learned them, in float64: scaled where it was trained so."""
    targets = targets.double()
    if head.standardized is None:
        return targets
    mean, scale = (
        torch.tensor(head.options["units"][key], dtype=torch.float64, device=targets.device)
        for key in ("mean", "scale")
    )
    if len(mean) != 1:
        raise NescioError("the head has statistics of several members; choose one of them")
    return (targets - mean) / scale
