"""Activations from arrays: what a network gave, whatever it was written in and wherever it ran."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import NescioError, as_targets, as_tensor, check_labels
from nescio.detectors.activations import FEATURES, Activations, check_finite, hash_inputs
from nescio.models import Model, ensemble, innermost
from nescio.models import networks as members_of
from nescio.nets import RecordedColumns, as_logits, recorded_columns

RECORDED = (
    "recorded"  # the name in `about`: inputs are the columns that nets.recorded_columns reads
)
RANK = 1e-6  # of the largest singular value: features that do not vary beyond rounding
NEAR, SURE = 1e-3, 1e-5  # how far their sums may be from 1; and how near those of logits never are


def recorded(
    logits: Any = None,
    *,
    probabilities: Any = None,
    features: Any = None,
    labels: Any = None,
) -> Activations:
    """What a network gave for samples, as arrays: of TensorFlow, JAX, ONNX, scikit-learn, others.

    `audit`, `guard` and `compare` take it in place of data, with None in place of the network, and
    `score` and guards in place of inputs.

    >>> test = recorded([[2.0, 0.0], [0.0, 1.0]], features=[[3.0], [4.0]], labels=[0, 1])
    >>> test
    Activations(2 inputs, 2 classes; features (1))

    logits: `(N, C)`, of several networks `(M, N, C)`; of two classes also one logit each, `(N,)`.
    probabilities: the same in their place; below 2 ** -52 they are read as that.
    features: `(N, F)` or `(M, N, F)`, what enters the last layer, for the detector of OOD inputs;
      without them the logits are read.
    labels: `(N,)`, whole numbers from 0 on; None: unknown.
    """
    if (logits is None) == (probabilities is None):
        raise NescioError("give logits or probabilities, one of them")
    named = {"logits": logits, "probabilities": probabilities, "features": features}
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in given.items():
        check_finite(name, _of_members(name, value))
    rows, nets = as_rows(*given.values(), probabilities=logits is None)
    y = None if labels is None else _labels(labels, len(rows))
    if y is not None:
        check_labels(y, len(nets[0].logit_columns), (len(rows),))
    return read_back(nets, rows, y)


def as_rows(
    logits: Any, features: Any = None, *, probabilities: bool = False
) -> tuple[Tensor, list[RecordedColumns]]:
    """Inputs `(N, columns)` of `nescio.nets.recorded_columns`, and these networks; NaN stays.

    logits: `(N, C)`, or of several networks `(M, N, C)`.
    features: `(N, F)` or `(M, N, F)`; None: there are none.
    probabilities: whether `logits` are probabilities.
    """
    given = _logs(logits) if probabilities else _logits(logits)
    own = [] if features is None else [_of_members("features", features, like=given)]
    count = given.shape[1]
    rows = torch.cat([part.transpose(0, 1).reshape(count, -1) for part in (given, *own)], 1)
    return rows, _nets(rows, given)


def read_back(
    nets: Sequence[RecordedColumns], rows: Tensor, labels: Tensor | None = None
) -> Activations:
    """Activations of rows, inputs of `nescio.nets.recorded_columns`.

    Samples are told apart by their features: logits may have been recovered from these.

    nets: the networks that read the columns, one per member.
    rows: the inputs, `(N, columns)`.
    labels: true labels, `(N,)`; None: unknown.
    """
    features = torch.cat([net.feature_columns for net in nets])
    return Activations(
        logits=torch.stack([rows[:, net.logit_columns] for net in nets]),
        features={FEATURES: torch.stack([rows[:, net.feature_columns] for net in nets])},
        labels=labels,
        inputs=rows,
        hashes=hash_inputs(rows[:, features]),
        about={RECORDED: True},
        checked=True,
    )


def recorded_nets(source: Any) -> list[RecordedColumns]:
    """The networks behind recorded arrays; none where there are no such arrays.

    source: a module, a predictor or activations.
    """
    if isinstance(source, Activations):
        rows = source.inputs if source.about.get(RECORDED) else None
        return [] if not isinstance(rows, Tensor) else _nets(rows, source.logits)
    inner = innermost(source)
    if not isinstance(inner, nn.Module) and not callable(getattr(inner, "networks", None)):
        return []
    nets = [member.net for member in members_of(inner)]
    return [net for net in nets if isinstance(net, RecordedColumns)]


def as_recorded(given: Any, name: str = "the data", like: Activations | None = None) -> Activations:
    """Activations from arrays; those that `recorded` did not make are read again by it.

    given: the activations; anything else is refused.
    name: what they are, for messages.
    like: others, whose classes and features they must have; None: any.
    """
    if not isinstance(given, Activations):
        raise NescioError(
            f"without a network {name} are what one gave: nescio.recorded(logits, features=..., "
            f"labels=...); got a {type(given).__name__}"
        )
    found = given
    if not recorded_nets(given):
        last = given.features[given.layer()] if given.features else None
        found = recorded(given.logits, features=last, labels=given.labels)
    if like is not None and _sizes(found) != _sizes(like):
        raise NescioError(f"{name} are {_sizes(found)}, the others {_sizes(like)}; give them alike")
    return found


def has_features(source: Any) -> bool:
    """Whether the recorded arrays `source`, or those a network stands for, have features, too."""
    return any(not torch.equal(n.logit_columns, n.feature_columns) for n in recorded_nets(source))


def recorded_model(given: Activations) -> Model:
    """The network behind the recorded arrays `given`: it answers to their inputs, the columns."""
    made = ensemble(recorded_nets(given))
    assert isinstance(made, Model)
    return made


def recovered_logits(known: Activations, features: Any) -> Tensor:
    """The logits `(M, N, C)` of other `features`, by the last layer that the `known` arrays show.

    It is refused where known logits are not linear in their features, or where the others have
    features that the known ones never show.
    """
    others = _of_members("features", features, dtype=torch.float64)
    check_finite("features", others)
    found = []
    pairs = zip(known.logits.double(), known.features[FEATURES].double(), others, strict=True)
    for logits, own, new in pairs:
        design, wanted = (torch.cat([f, f.new_ones(len(f), 1)], 1) for f in (own, new))
        if design.shape[1] != wanted.shape[1]:
            raise NescioError(f"{new.shape[1]} features, the others have {own.shape[1]}")
        left, sizes, right = torch.linalg.svd(design, full_matrices=False)
        kept = sizes > RANK * sizes[0]
        left, sizes, right = left[:, kept], sizes[kept], right[kept]
        layer = right.T @ ((left.T @ logits) / sizes[:, None])  # (F + 1, C)
        off = (design @ layer - logits).abs().max() / logits.abs().max().clamp_min(1)
        unseen = (wanted - wanted @ right.T @ right).norm(dim=1) / wanted.norm(dim=1)
        if not (off < NEAR and unseen.max() < NEAR):
            raise NescioError(
                "logits cannot be computed from these features: the last layer is not linear, or "
                "the known features do not show all of it; give the logits too (--train-logits)"
            )
        found.append(wanted @ layer)
    return torch.stack(found).float()


def _sizes(given: Activations) -> str:
    wide = given.features[FEATURES].shape[2]
    return f"{given.members} network(s), {given.classes} classes, {wide} features"


def _nets(rows: Tensor, logits: Tensor) -> list[RecordedColumns]:
    members, _, classes = logits.shape
    made = (
        recorded_columns(rows.shape[1], classes, members=members, member=m) for m in range(members)
    )
    return [net for net in made if isinstance(net, RecordedColumns)]


def _logits(given: Any) -> Tensor:
    found = _of_members("logits", given)
    if found.shape[2] > 1 and (found >= 0).all() and not _off(found, SURE):
        raise NescioError(
            "the logits are probabilities: no number is negative, and every row sums to 1; give "
            "them as probabilities= (--probabilities)"
        )
    return torch.cat([torch.zeros_like(found), found], 2) if found.shape[2] == 1 else found


def _logs(given: Any) -> Tensor:
    found = _of_members("probabilities", given, dtype=torch.float64)
    if found.shape[2] == 1:
        found = torch.cat([1 - found, found], 2)
    if (found < 0).any() or _off(found, NEAR):
        raise NescioError(
            "probabilities are not negative, and each row sums to 1; these go from "
            f"{_range(found)}, and the sums of rows from {_range(found.sum(2))}. Give logits if "
            "they are that"
        )
    return as_logits(found).float()


def _off(found: Tensor, near: float) -> bool:
    """Whether a row does not sum to 1; one that is not finite says nothing."""
    return bool(((found.sum(2) - 1).abs() >= near).any())


def _range(values: Tensor) -> str:
    return f"{float(values.min()):.4g} to {float(values.max()):.4g}"


def _of_members(
    name: str, given: Any, *, like: Tensor | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Real numbers `(M, N, ...)`, with the members and samples of others."""
    if isinstance(given, Mapping):
        raise NescioError(f"{name} are one array; join several layers to one, side by side")
    found = as_tensor(given, name)
    if found.ndim == 1:
        found = found[:, None]
    found = found[None] if found.ndim == 2 else found
    if found.ndim != 3 or not found.numel():
        raise NescioError(
            f"{name} must be (samples, numbers), or (networks, samples, numbers), and not empty; "
            f"got {tuple(found.shape)}"
        )
    if found.is_complex():
        raise NescioError(f"{name} must be real numbers, got {found.dtype}")
    if like is not None and found.shape[:2] != like.shape[:2]:
        raise NescioError(
            f"{name} are of {found.shape[0]} network(s) and {found.shape[1]} samples, the logits "
            f"of {like.shape[0]} and {like.shape[1]}; they must agree"
        )
    return found.to(dtype)


def _labels(given: Any, samples: int) -> Tensor:
    found = as_tensor(given, "labels")
    if found.is_floating_point() and bool((found == found.round()).all()):
        found = found.long()  # as tables and some frameworks hold them
    return as_targets(found, samples, task="classification")
