"""Features, labels and test quantities of a network whose last linear layer is examined."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.influence.linear_head import LinearHead
from nescio.applications.influence.objective import in_training_units
from nescio.applications.influence.quantities import Asked, Quantity, asked_for
from nescio.core import Head, NescioError, check_labels
from nescio.detectors import Activations
from nescio.detectors.observe import observe
from nescio.detectors.observe.layers import BEFORE, place
from nescio.detectors.observe.network import head_of, networks
from nescio.models import Member


@dataclass(frozen=True, eq=False, kw_only=True)
class Tested:
    """What is asked about test samples, and its gradients in the parameters."""

    asked: Asked
    outputs: Tensor  # (T, O)
    value: Tensor  # (T,)
    gradients: Tensor  # (T, P)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadReading:
    """One network, its head, and the linear layer that gives its outputs."""

    source: Any
    member: Member
    head: Head
    name: str  # of what enters the layer
    layer: nn.Linear

    @property
    def weight(self) -> Tensor:
        """The weights of the layer in float64, `(O, F)`, with its bias as one more column."""
        weight = self.layer.weight.detach().double()
        if self.layer.bias is None:
            return weight
        return torch.cat([weight, self.layer.bias.detach().double()[:, None]], 1)

    def seen(self, data: Any, *, labels: bool) -> tuple[Tensor, Tensor | None]:
        """Features `(N, F)` and labels or targets of data."""
        found = observed(self.source, data)
        features = found.features[self.name][0]
        if found.labels is None and labels:
            raise NescioError("the training data must have labels: train=(x, y)")
        if found.labels is None:
            return features, None
        if self.head.task != "regression":
            return features, check_labels(found.labels, found.classes, (found.samples,))
        return features, in_training_units(self.head, found.labels)

    def tested(self, problem: LinearHead, data: Any, on: Quantity, target: object) -> Tested:
        """What is asked about test data at the present weights."""
        features, labels = self.seen(data, labels=False)
        wide = problem.extended(features)
        outputs = wide @ problem.weight.T
        asked = asked_for(
            on, outputs, labels, head=self.head, objective=problem.objective, target=target
        )
        outputs.requires_grad_()
        with torch.enable_grad():
            value = asked.of(outputs)
            (slopes,) = torch.autograd.grad(value.sum(), outputs)
        gradients = (slopes[:, :, None] * wide[:, None]).flatten(1)
        return Tested(
            asked=asked, outputs=outputs.detach(), value=value.detach(), gradients=gradients
        )


def observed(source: Any, data: Any) -> Activations:
    """What the network gives for data, unless they are that already."""
    return data if isinstance(data, Activations) else observe(source, data)


def head_reading(source: Any, train: Activations) -> HeadReading:
    """How the last layer of a network is read, from what it gave for the training data."""
    members = networks(source)
    if len(members) != 1:
        raise NescioError(
            f"influence is of one network, the model has {len(members)} members; choose one: "
            "model.choose([0])"
        )
    name = train.last or ""
    layer = place(name, members[0].net).layer if name.startswith(BEFORE) else None
    if not isinstance(layer, nn.Linear):
        raise NescioError(
            "the outputs of this network are not those of a linear layer, so it has no last layer "
            "to examine; use parameters='all'"
        )
    head = head_of(train.about, members)
    return HeadReading(source=source, member=members[0], head=head, name=name, layer=layer)
