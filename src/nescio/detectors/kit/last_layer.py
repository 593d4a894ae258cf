"""The last linear layer and the features that enter it, for detectors that change either."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.detectors.activations import Activations
from nescio.detectors.detector import single
from nescio.detectors.simple import free_energy

NUMBERS = 1 << 21  # of a block of training features or logits


def last_layer(train: Activations, name: str) -> tuple[str, list[dict[str, Tensor]]]:
    """The layer that enters the last linear one, and weight and bias of that for each network."""
    if train.weight is None or train.bias is None:
        raise NescioError(f"{name} needs the last linear layer{_why(train)}")
    layer = train.layer(None)
    wide, width = train.weight.shape[-1], train.features[layer].shape[-1]
    if wide != width:
        raise NescioError(
            f"the last linear layer reads {wide} features, layer {layer!r} has {width}; say which "
            "layer enters it: last="
        )
    shape, bias = (train.members, train.classes, width), tuple(train.bias.shape)
    if tuple(train.weight.shape) != shape or bias != shape[:2]:
        raise NescioError(
            f"weight and bias must be {shape} and {shape[:2]} (networks, classes, features), got "
            f"{tuple(train.weight.shape)} and {bias}"
        )
    return layer, [
        {"weight": single(weight), "bias": single(bias)}
        for weight, bias in zip(train.weight, train.bias, strict=True)
    ]


def _why(train: Activations) -> str:
    """Why there is no last linear layer, and what to do."""
    if "layers" not in train.about:  # not from a network
        return ": give weight= and bias= to Activations, or use nescio.observe(net, data)"
    layers = ", ".join(train.about["layers"]) or "-"
    return (
        f", and what enters it is not known: observed were {layers}. Name None "
        "among the layers=; a network that changes its logits after that layer has none"
    )


def answer(features: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """Logits `(N, C)` of the last linear layer for features `(N, F)`."""
    weight, bias = state["weight"], state["bias"]
    check_width(features, weight)
    return torch.addmm(bias.to(features.dtype), features, weight.to(features.dtype).T)


def energy_of(features: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """The free energy of the logits that the last linear layer gives for features."""
    return free_energy(answer(features, state))


def check_width(features: Tensor, fitted: Tensor) -> None:
    """Refuse features of another width than the detector was fitted on."""
    if features.shape[-1] != fitted.shape[-1]:
        raise NescioError(
            f"the detector was fitted on {fitted.shape[-1]} numbers an input, these are "
            f"{features.shape[-1]}; observe the same layer with the same pooling"
        )


def parts(tensor: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of `(N, F)` in blocks of bounded size, in at least single precision."""
    size = max(1, NUMBERS // tensor.shape[-1])
    for start in range(0, len(tensor), size):
        rows = slice(start, start + size)
        yield rows, single(tensor[rows])


def class_sums(tensor: Tensor, classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Sums of the rows of each class `(C, F)` in float64, and their number; -1 is not a class."""
    sums = torch.zeros(count, tensor.shape[-1], dtype=torch.float64, device=tensor.device)
    for rows, block in parts(tensor):
        own = classes[rows]
        sums.index_add_(0, own[own >= 0], block[own >= 0].double())
    return sums, classes[classes >= 0].bincount(minlength=count)


def right_classes(logits: Tensor, labels: Tensor) -> Tensor:
    """The label where the network answers with it, else -1, `(N,)`."""
    labels = check_classes_of(labels, logits.shape[-1]).to(logits.device)
    return labels.where(logits.argmax(-1) == labels, -1)


def check_classes_of(labels: Tensor, classes: int) -> Tensor:
    """The labels as int64; refused where they are not classes of the logits."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise NescioError(
            f"labels must be from 0 to {classes - 1}, the classes of the logits, got {low} to "
            f"{high}; renumber them as the network has them"
        )
    return labels.long()
