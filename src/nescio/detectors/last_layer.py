"""Detectors that change the last linear layer, or what enters it: ReAct, DICE, ASH and ViM."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores, single
from nescio.detectors.mahalanobis import moments, precision
from nescio.detectors.simple import free_energy, in_blocks

KINDS = ("s", "b", "p")
STEEPEST = 600  # of s1 / s2, whose exponential float64 holds
NUMBERS = 1 << 21  # of a block of training features or logits


@detectors.register
def react(train: Activations, *, percentile: float = 90.0) -> Detector:
    """The free energy after features are clipped at a percentile of the training features.

    train: activations of the training data.
    percentile: of all numbers of the features before the last linear layer, from 0 to 100. At 100
      training data keep their energy.
    """
    if not 0 <= percentile <= 100:
        raise NescioError(f"a percentile is from 0 to 100, got {percentile}")
    layer, states = last_layer(train, "react")
    for member, state in enumerate(states):
        features = train.features[layer][member]  # torch.quantile stops at 16 million numbers
        limit = np.percentile(features.float().cpu().numpy(), percentile)
        state["limit"] = torch.tensor(limit, dtype=torch.float32, device=features.device)
    return fitted("react", train, {"percentile": float(percentile)}, states, layer)


@scores.named("react")
def _react(view: View, state: State, **_: float) -> Tensor:
    features = only_layer(view)
    return energy_of(features.minimum(state["limit"].to(features.dtype)), state)


@detectors.register
def dice(train: Activations, *, sparsity: float = 0.9) -> Detector:
    """The free energy with those last weights alone whose mean contribution is largest.

    The contribution of a weight is its product with the mean training feature.

    train: activations of the training data.
    sparsity: the share of all weights that is set to zero.
    """
    if not 0 <= sparsity < 1:
        raise NescioError(f"sparsity must be at least 0 and below 1, got {sparsity}")
    layer, states = last_layer(train, "dice")
    for member, state in enumerate(states):
        features = train.features[layer][member]
        sums = [block.sum(0, dtype=torch.float64) for _, block in parts(features)]
        mean = (torch.stack(sums).sum(0) / len(features)).to(state["weight"].device)
        contribution = (state["weight"].double() * mean).flatten()
        gone = contribution.sort(stable=True).indices[: round(sparsity * len(contribution))]
        sparse = state["weight"].flatten().index_fill(0, gone, 0.0)
        state["weight"] = sparse.view_as(state["weight"])
    return fitted("dice", train, {"sparsity": float(sparsity)}, states, layer)


@scores.named("dice")
def _dice(view: View, state: State, **_: float) -> Tensor:
    return energy_of(only_layer(view), state)


@detectors.register
def ash(train: Activations, *, kind: str = "s", percentile: float = 90.0) -> Detector:
    """The free energy after the smallest features of each input are removed.

    Nothing is fitted.

    train: activations, which give the last linear layer.
    kind: "s", the rest is multiplied by exp(s1 / s2), with s1 and s2 the sums before and after;
      "b", what is above zero of the rest is set to an equal share of s1; "p", the rest stays.
    percentile: of an input's features that are removed, 0 to 100; equal ones stay or go together.
    """
    if kind not in KINDS:
        raise NescioError(unknown("kind of ash", kind, KINDS))
    if not 0 <= percentile < 100:
        raise NescioError(f"percentile must be at least 0 and below 100, got {percentile}")
    layer, states = last_layer(train, "ash")
    width = train.features[layer].shape[-1]
    remaining = _remaining(width, percentile)
    if kind == "s" and width / remaining > STEEPEST:
        raise NescioError(
            f"percentile {percentile} keeps {remaining} of {width} features, and "
            "exp(s1 / s2) may overflow; lower it"
        )
    if kind != "p" and (
        lost := sum(int((b < 0).sum()) for f in train.features[layer] for _, b in parts(f))
    ):
        raise NescioError(
            f'ash of kind "{kind}" shares out the sum of features that are not negative, as after '
            f'a ReLU; {lost} are negative; use kind="p", or name another layer: last='
        )
    options = {"kind": kind, "percentile": float(percentile)}
    return fitted("ash", train, options, states, layer)


@scores.named("ash")
def _ash(view: View, state: State, *, kind: str, percentile: float) -> Tensor:
    """The free energy of the logits of what is left of the features; "s" in float64."""
    features, weight, bias = only_layer(view), state["weight"], state["bias"]
    check_width(features, weight)
    limit = features.topk(_remaining(features.shape[-1], percentile), sorted=False).values
    mask = (features >= limit.amin(-1, keepdim=True)).to(features.dtype)
    before = features.sum(-1, keepdim=True)
    left = features * mask
    if kind == "b":
        mask = mask * (features > 0)
        left = mask * (before / mask.sum(-1, keepdim=True).clamp_min(1))
    logits = left @ weight.to(left.dtype).T
    if kind == "s":
        after = left.sum(-1, keepdim=True)
        share = before / after.where(after != 0, 1.0)  # nothing but zeros: nothing to scale
        logits = logits.double() * share.double().exp()
    return free_energy(logits + bias.to(logits.dtype))


def _remaining(width: int, percentile: float) -> int:
    """The number of features that stay: all but the rounded share, at least one."""
    return max(1, width - round(width * percentile / 100))


@detectors.register
def vim(train: Activations, *, dim: int | None = None) -> Detector:
    """The length of the features outside their principal space, as a logit against the others.

    alpha |R' (f - o)| - logsumexp(z): o is the point where the last layer gives zero (by the
    pseudo-inverse), R the directions of the training features about o with the least variance, and
    alpha makes the mean virtual logit of the training data that of their largest logits. It is the
    order of the published probability of the virtual class, and does not saturate.

    train: activations of the training data.
    dim: dimension of the principal space. None: 1000 from 2048 features on, 512 from 768 on, else
      half.
    """
    name, layers = last_layer(train, "vim")
    width = train.features[name].shape[-1]
    size = _size(width) if dim is None else dim
    if not 0 < size < width:
        raise NescioError(f"dim must be from 1 to {width - 1}, below the features, got {size}")
    rows = zip(train.features[name], train.logits, layers, strict=True)
    states = [_fitted(features, logits, layer, size) for features, logits, layer in rows]
    return fitted("vim", train, {"dim": size}, states, name)


@scores.named("vim")
def _vim(view: View, state: State, **_: int) -> Tensor:
    length = _residual(only_layer(view), state["origin"], state["residual"])
    return state["alpha"] * length + free_energy(view.logits.to(length.dtype))


@torch.no_grad()
def _fitted(features: Tensor, logits: Tensor, layer: State, size: int) -> dict[str, Tensor]:
    origin = -torch.linalg.pinv(layer["weight"].double()) @ layer["bias"].double()
    about = moments(features)
    shift = about.mean - origin
    second = about.within + shift.outer(shift)
    residual = torch.linalg.eigh(second).eigenvectors[:, : len(origin) - size]
    precise = {"origin": origin, "residual": residual.contiguous()}
    state = {name: tensor.to(precision(features)) for name, tensor in precise.items()}
    length = _residual(features, state["origin"], state["residual"]).double().mean()
    if length <= 0:
        raise NescioError(f"the features lie in a space of {size} dimensions; give a smaller dim")
    largest = logits.amax(-1).double().mean()
    if largest <= 0:
        raise NescioError(
            f"the largest logits of the training data are {float(largest):.3g} on average; vim "
            "scales by them and needs a positive number, use mahalanobis or knn"
        )
    return {**state, "alpha": (largest / length).to(state["origin"])}


def _size(width: int) -> int:
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


def _residual(features: Tensor, origin: Tensor, residual: Tensor) -> Tensor:
    def length(rows: Tensor) -> Tensor:
        result: Tensor = ((rows.to(origin.dtype) - origin) @ residual).norm(dim=1)
        return result

    return in_blocks(features, length)


def last_layer(train: Activations, name: str) -> tuple[str, list[dict[str, Tensor]]]:
    """The layer that enters the last linear one, and weight and bias of that for each network."""
    if train.weight is None or train.bias is None:
        why = ": give weight= and bias= to Activations, or use nescio.observe(net, data)"
        if "layers" in train.about:  # from a network
            why = (
                ", and what enters it is not known: observed were "
                f"{', '.join(train.about['layers']) or '-'}. Name None among the layers=; a "
                "network that changes its logits after that layer has none"
            )
        raise NescioError(f"{name} needs the last linear layer{why}")
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


def energy_of(features: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """The free energy of the logits that the last linear layer gives for features."""
    weight, bias = (state[name].to(features.dtype) for name in ("weight", "bias"))
    check_width(features, weight)
    return free_energy(torch.addmm(bias, features, weight.T))


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
