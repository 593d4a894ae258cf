"""What a recipe is: a loss, a number of members, and where members come from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nescio import losses
from nescio.core import Head, NescioError
from nescio.core.registry import predictors
from nescio.data import OODSource
from nescio.data.ranges import Units, noise, units_of
from nescio.losses.loss import in_units
from nescio.models import Model, Predictor

Source = OODSource | Callable[[Tensor], OODSource]  # an OOD source, or one made of the inputs
BEYOND = 0.5  # of its range that noise goes past each end of a feature


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a named method trains, and how it predicts.

    loss: the loss, or a function of the training inputs that gives it.
    members: number of networks.
    dropout: dropout rate of the network.
    net: name of the network it needs; None: any.
    sampler: name of the predictor that draws members from the model; None: the model itself
      predicts.
    sampling: options of the sampler, by name.
    """

    loss: losses.Loss | Callable[[Tensor], losses.Loss]
    members: int = 1
    dropout: float = 0.0
    net: str | None = None
    sampler: str | None = None
    sampling: dict[str, Any] = field(default_factory=dict)

    def loss_for(self, x: Tensor) -> losses.Loss:
        """The loss for training inputs `x` `(N, ...)`: some make their noise of them."""
        return self.loss if isinstance(self.loss, losses.Loss) else self.loss(x)

    def predictor(self, model: Model) -> Predictor:
        """The predictor of a `model` that was trained with this recipe."""
        if self.sampler is None:
            return model
        drawn: Predictor = predictors[self.sampler](model, **self.sampling)
        return drawn


def of_inputs(
    loss: Callable[[Tensor, Units], losses.Loss], strength: float
) -> Callable[[Tensor], losses.Loss]:
    """A loss made of the training inputs, in their units, with weight decay."""

    def of(x: Tensor) -> losses.Loss:
        units = units_of(x)
        return decayed(in_units(units, loss(x, units)), strength)

    return of


def ood_of(source: Source | None, x: Tensor, units: Units) -> OODSource:
    """The OOD source of a recipe, in the units of the training inputs."""
    if source is None:
        return noise(x, seed=0, beyond=BEYOND, shuffled=True)
    # A function gets the inputs in these units, and what it makes of them is in them too.
    ood = units.ood(source) if isinstance(source, OODSource) else source(units.shares(x))
    if ood.shape != x.shape[1:]:
        raise NescioError(
            f"the OOD set {ood.name!r} has inputs of shape {ood.shape}, the training inputs "
            f"{tuple(x.shape[1:])}; images are changed by data.gray, color, crop and pad, on the "
            "command line by NAME:gray:crop=28"
        )
    return ood


def decayed(base: losses.Loss, strength: float) -> losses.Loss:
    return losses.weight_decay(base, strength=strength) if strength else base


def concentrations(head: Head | None) -> Head | None:
    """The head if it gives concentrations; None, the default of the loss, for class logits."""
    if head is None or head.name == "categorical":
        return None
    if head.log_concentrations is None:
        raise NescioError(
            f"this recipe needs a dirichlet head and one output for each class, got {head.name}"
        )
    return head
