"""What networks gave for inputs: logits, features of layers, labels. Every detector reads this."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    Bundle,
    Inputs,
    NescioError,
    NotFiniteError,
    as_tensor,
    shape_of,
    spans,
    unknown,
)
from nescio.core import hash_inputs as hash_inputs
from nescio.data import door

FEATURES = "features"  # the name of features that came as one array
UNCLASSED = ("combined", "gower", "knn", "mahalanobis")  # detectors that need no classes
TASK, REGRESSION = "task", "regression"  # the name in `about`, and what it is unless classes
CONCENTRATIONS = "concentrations"  # the name in `about` where networks answer with Dirichlets
OF_THE_MEAN = ("predictive_entropy", "least_confidence", "log_odds", "variation_ratio")
BLOCK = 1 << 23  # numbers of a block: what a detector works on at a time stays small
LEAST = 256  # samples of a block, at least


class NoInputsError(NescioError):
    """The inputs of the network are asked for, and the activations have none."""


@dataclass(frozen=True, eq=False)
class View:
    """What one network gave for some inputs: no member axis."""

    logits: Tensor  # (N, C)
    features: Mapping[str, Tensor]  # by layer, (N, F)
    inputs: Inputs | None  # (N, ...); images may be bytes: nescio.core.as_batch reads both
    weight: Tensor | None  # (C, F) of the last linear layer
    bias: Tensor | None  # (C,)
    answer: Callable[[Any], Tensor] | None  # inputs -> logits (N, C), with gradients


@dataclass(frozen=True, eq=False, repr=False)
class Activations:
    """What M networks gave for N inputs.

    From arrays: `Activations(logits=z, features=f, labels=y)`, with logits `(N, C)` or `(M, N, C)`
    and features `(N, F)` or `(M, N, F)`, one array or several by name. `nescio.observe` makes them
    from a network and data. Numbers that are NaN or infinite are refused, and counted.

    logits: outputs of the networks, `(M, N, C)`; of a regression the means.
    features: features by layer, each `(M, N, F)`.
    labels: labels `(N,)`, or the targets `(N, D)` of a regression; None: unknown.
    inputs: the inputs `(N, ...)`, for detectors that need gradients; None: not stored.
    weight: weights of the last linear layer, `(M, C, F)`; None: unknown.
    bias: biases of the last linear layer, `(M, C)`; None: unknown.
    last: name of the layer whose features enter the last linear layer.
    answers: one function per member, from inputs to logits `(N, C)`.
    about: how they were made; JSON, stored with detectors that are fitted on them.
    hashes: hashes of the inputs, `(N,)` of int64, equal for equal inputs.
    checked: whether the numbers are known to be finite.
    """

    logits: Tensor
    features: Mapping[str, Tensor] = field(default_factory=dict)
    labels: Tensor | None = None
    inputs: Inputs | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None
    last: str | None = None
    answers: Sequence[Callable[[Any], Tensor]] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    hashes: Tensor | None = None
    checked: bool = False

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        logits = _with_members("logits", self.logits)
        given = self.features if isinstance(self.features, Mapping) else {FEATURES: self.features}
        features = {name: _with_members(name, value) for name, value in given.items()}
        put("logits", logits)
        put("features", features)
        if self.last is None and len(features) == 1:
            put("last", next(iter(features)))
        widths = {name: value.shape[-1] for name, value in features.items()}
        put("about", {**self.about, "classes": logits.shape[-1], "widths": widths})
        members, samples = logits.shape[:2]
        for name, value in features.items():
            if value.shape[:2] != (members, samples):
                raise NescioError(
                    f"features {name!r} are of {value.shape[0]} network(s) and {value.shape[1]} "
                    f"inputs, the logits of {members} and {samples}; they must agree"
                )
        if self.labels is not None:
            labels = as_tensor(self.labels, "labels")
            if labels.shape != (samples,) and not (self.regression and len(labels) == samples):
                raise NescioError(
                    f"labels must be ({samples},), one per input, got {tuple(labels.shape)}"
                )
            put("labels", labels)
        if not self.checked:
            for name, value in {"logits": logits, **features}.items():
                check_finite(name, value)
            put("checked", True)
        if self.inputs is not None:
            put("inputs", _inputs(self.inputs, samples))
            put("hashes", hash_inputs(self.inputs) if self.hashes is None else self.hashes)
        if self.weight is not None:
            weight = as_tensor(self.weight, "weight")
            weight = weight[None] if weight.ndim == 2 else weight
            put("weight", weight)
            bias = weight.new_zeros(weight.shape[:2]) if self.bias is None else self.bias
            bias = as_tensor(bias, "bias")
            put("bias", bias[None] if bias.ndim == 1 else bias)

    def __repr__(self) -> str:
        layers = ", ".join(f"{name} ({f.shape[-1]})" for name, f in self.features.items()) or "-"
        members = f" of {self.members} networks" if self.members > 1 else ""
        what = "targets" if self.regression else "classes"
        return f"Activations({self.samples} inputs{members}, {self.classes} {what}; {layers})"

    @property
    def members(self) -> int:
        """M, the number of networks."""
        return len(self.logits)

    @property
    def samples(self) -> int:
        """N, the number of inputs."""
        return self.logits.shape[1]

    @property
    def classes(self) -> int:
        """C, the number of outputs."""
        return self.logits.shape[2]

    @property
    def regression(self) -> bool:
        """Whether the networks predict numbers: logits are then means, and labels targets."""
        return self.about.get(TASK) == REGRESSION

    @property
    def concentrations(self) -> bool:
        """Whether the networks answer with Dirichlets: logits are then log concentrations."""
        return bool(self.about.get(CONCENTRATIONS))

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, chosen: Any) -> "Activations":
        """Some of the inputs: a slice, indices or a mask."""
        if isinstance(chosen, int):
            chosen = slice(chosen, chosen + 1 or None)
        return replace(
            self,
            logits=self.logits[:, chosen],
            features={name: value[:, chosen] for name, value in self.features.items()},
            labels=None if self.labels is None else self.labels[chosen],
            inputs=None if self.inputs is None else self.inputs[chosen],
            hashes=None if self.hashes is None else self.hashes[chosen],
        )

    def layer(self, name: str | None = None) -> str:
        """The full name of a layer.

        name: the name; None: the layer before the last linear layer.
        """
        if not self.features:
            raise NescioError(
                "there are no features; use nescio.observe(net, data), or give them: "
                "Activations(logits=..., features=...). TorchScript hides its layers: there use a "
                "detector of logits, such as energy, or give the nn.Module it was made from"
            )
        if name is not None and name not in self.features:
            raise NescioError(unknown("layer", name, self.features))
        if name is None and self.last is None:
            raise NescioError(
                f"there are {len(self.features)} layers and none is known to be before the last "
                f"linear one; name one of {', '.join(self.features)}"
            )
        return name or self.last or ""

    def known(self) -> Tensor:
        """The class labels, or an error that says how to give them."""
        if self.regression:
            raise NescioError(
                "this needs class labels, and the networks are of a regression; nescio.audit says "
                "how well its spread finds errors, and knn, mahalanobis and gower read its features"
            )
        if self.labels is None:
            raise NescioError("this detector needs labels; observe (x, y), or give labels=")
        if self.labels.is_floating_point():
            raise NescioError(
                f"this detector needs class labels, whole numbers; these are {self.labels.dtype}"
            )
        return self.labels

    def groups(self) -> Tensor:
        """The class labels; the samples of a regression are one group."""
        if not self.regression:
            return self.known()
        return torch.zeros(self.samples, dtype=torch.long, device=self.logits.device)

    def mean(self) -> "Activations":
        """The mean network: mean probabilities, mean features and mean last layer."""
        return replace(
            self,
            logits=mean_logits(self.logits) if not self.regression else self.logits.mean(0)[None],
            features={name: value.mean(0, keepdim=True) for name, value in self.features.items()},
            weight=None if self.weight is None else self.weight.mean(0, keepdim=True),
            bias=None if self.bias is None else self.bias.mean(0, keepdim=True),
            answers=(),
            about={**self.about, "mean": True},
        )

    def views(self, member: int, layers: Sequence[str] | None = None) -> Iterator[View]:
        """One network's activations, in blocks of bounded size.

        member: index of the network.
        layers: names of the layers whose features are given; None: all.
        """
        wanted = {n: f[member] for n, f in self.features.items() if layers is None or n in layers}
        rest = (
            None if self.weight is None else self.weight[member],
            None if self.bias is None else self.bias[member],
            self.answers[member] if self.answers else None,
        )
        logits = self.logits[member]
        if 0 < len(logits) <= LEAST:
            yield View(logits, wanted, self.inputs, *rest)
            return
        wide = self.classes + sum(value.shape[-1] for value in wanted.values())
        wide += 0 if self.inputs is None else self.inputs[:1].numel()
        size = max(LEAST, BLOCK // max(1, wide))
        for part in spans(self.samples, size):
            yield View(
                logits[part],
                {name: value[part] for name, value in wanted.items()},
                None if self.inputs is None else self.inputs[part],
                *rest,
            )


def mean_logits(logits: Tensor) -> Tensor:
    """Logits `(1, N, C)` of the mean probabilities of `(M, N, C)`; a single network's stay.

    Their log-sum-exp is the mean of the members': an energy keeps its meaning.
    """
    if len(logits) == 1:
        return logits
    whole = logits.logsumexp(-1, keepdim=True)  # (M, N, 1)
    log_probs = (logits - whole).logsumexp(0, keepdim=True) - math.log(len(logits))
    return log_probs + whole.mean(0, keepdim=True)


def check_finite(name: str, value: Tensor) -> None:
    """Refuse NaN and infinite numbers of `(M, N, F)`, and say how many inputs have them."""
    size = max(1, BLOCK // value.shape[-1])
    if all(part.sum().isfinite() for row in value for part in row.split(size)):
        return
    bad = torch.zeros(value.shape[1], dtype=torch.bool, device=value.device)
    for row in value:
        bad |= torch.cat([~part.isfinite().all(-1) for part in row.split(size)])
    if bad.any():
        raise NotFiniteError(
            f"{name} are NaN or infinite for {int(bad.sum())} of {len(bad)} inputs (first: sample "
            f"{int(bad.nonzero()[0])}); leave those out, or look for an overflow in the network"
        )


def check_reading(options: Mapping[str, Any], *, concentrations: bool) -> None:
    """Refuse a measure of the spread of Dirichlets that would read only their means."""
    measure = options.get("measure")
    if concentrations and options.get("head") == "categorical" and measure not in OF_THE_MEAN:
        raise NescioError(
            f"these networks answer with Dirichlets, of which {measure} would read only the means; "
            f'make it of the concentrations: measured("{measure}", head="dirichlet")'
        )


def check_task(name: str, *, regression: bool) -> None:
    """Refuse detectors that read classes for a regression."""
    if regression and name not in UNCLASSED:
        raise NescioError(
            f"{name} reads class logits or labels, and the networks are of a regression; use one "
            f"of {', '.join(UNCLASSED)}"
        )


def check_widths(detector: str, about: Mapping[str, Any], widths: Mapping[str, int]) -> None:
    """Refuse features of another width than those a detector was fitted on."""
    for name, width in widths.items():
        wanted = about.get("widths", {}).get(name, width)
        if wanted != width:
            raise NescioError(
                f"{name!r}: {detector} was fitted on {wanted} features, these are {width}; use the "
                "network and pooling that it was fitted with, or fit it again"
            )


def _with_members(name: str, value: Any) -> Tensor:
    tensor = as_tensor(value, name)
    tensor = tensor[None] if tensor.ndim == 2 else tensor
    if tensor.ndim != 3 or not tensor.shape[2]:
        raise NescioError(
            f"{name} must be (samples, numbers) or (networks, samples, numbers), got "
            f"{tuple(tensor.shape)}"
        )
    if not tensor.shape[1]:
        raise NescioError(f"{name} hold no samples; give at least one input")
    return tensor if tensor.is_floating_point() else tensor.to(torch.float32)


def _inputs(value: Any, samples: int) -> Inputs:
    if door.several(value):
        value = door.as_network_inputs(value, dtype=None)
    inputs: Inputs = value if isinstance(value, Bundle) else as_tensor(value, "inputs")
    if len(inputs) != samples or (isinstance(inputs, Tensor) and inputs.ndim < 2):
        raise NescioError(
            f"inputs must be ({samples}, ...), one row per sample, got {len(inputs)} of shape "
            f"{shape_of(inputs)}"
        )
    return inputs
