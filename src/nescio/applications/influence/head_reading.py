"""Features, labels and test quantities of a network whose last linear layer is examined."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.applications.influence.objective import in_training_units
from nescio.core import Head, Inputs, NescioError, check_labels
from nescio.detectors import Activations
from nescio.detectors.observe import observe
from nescio.detectors.observe.layers import BEFORE, place
from nescio.detectors.observe.network import HALVES, head_of, networks, reader
from nescio.models import Member

FEW = 64  # samples whose outputs are compared with those of the layer


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
        weight, bias = _double(self.layer)
        return weight if bias is None else torch.cat([weight, bias[:, None]], 1)

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

    def entering(self, inputs: Inputs) -> Tensor:
        """What enters the layer, `(B, F)`, with gradients in the inputs."""
        network = replace(reader(self.member), places=(self.name,))
        return network(inputs)[1][self.name]

    @property
    def parameter(self) -> str:
        """The name of the layer among the parameters of the network, with its dot."""
        modules = self.member.net.named_modules()
        name = next(name for name, module in modules if module is self.layer)
        return f"{name}." if name else ""


def observed(source: Any, data: Any) -> Activations:
    """What the network gives for data, unless they are that already."""
    return data if isinstance(data, Activations) else observe(source, data)


def head_reading(source: Any, train: Activations) -> HeadReading:
    """How the last layer of a network is read, from what it gave for the training data."""
    member = only_member(source)
    name = train.last or ""
    layer = place(name, member.net).layer if name.startswith(BEFORE) else None
    head = head_of(train.about, [member])
    if not isinstance(layer, nn.Linear) or not _gives_outputs(layer, train, head):
        raise NescioError(
            "the outputs of this network are not those of a linear layer, so it has no last layer "
            "to examine; use parameters='all'"
        )
    return HeadReading(source=source, member=member, head=head, name=name, layer=layer)


def _gives_outputs(layer: nn.Linear, train: Activations, head: Head) -> bool:
    """Whether the layer gives what the network does, or this less a constant for each sample."""
    few = train[:FEW]
    entering = few.features[few.layer()][0]
    if entering.shape[1] != layer.in_features:
        return False
    with torch.no_grad():
        ours = head.logits(F.linear(entering.double(), *_double(layer)))
    theirs = few.logits[0].double()
    if ours.shape != theirs.shape:
        return False
    if head.task == "classification":  # a log-softmax after the layer changes no probability
        ours, theirs = ours.log_softmax(-1), theirs.log_softmax(-1)
    near = 1e-2 if layer.weight.dtype in HALVES else 1e-4
    return torch.allclose(ours, theirs, rtol=near, atol=near)


def _double(layer: nn.Linear) -> tuple[Tensor, Tensor | None]:
    bias = None if layer.bias is None else layer.bias.detach().double()
    return layer.weight.detach().double(), bias


def only_member(source: Any) -> Member:
    """The network of a module, or of a model with one member."""
    members = networks(source)
    if len(members) != 1:
        raise NescioError(
            f"influence is of one network, the model has {len(members)} members; choose one: "
            "model.choose([0])"
        )
    return members[0]
