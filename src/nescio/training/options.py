"""What `train` is asked for, checked: numbers, rows by member, weights of samples."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    NescioError,
    as_tensor,
    check_indices,
    digest,
    schedule_named,
    unknown,
    without_ignored,
)
from nescio.losses import Loss
from nescio.training.optimizers import named_optimizer
from nescio.training.plan import Pair, Rows

PRECISIONS = ("float32", "bfloat16")


def configured(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run that its result depends on, checked; JSON.

    given: the arguments of `train` by name.
    """
    rule = schedule_named(given["schedule"])
    config: dict[str, Any] = {
        "members": member_numbers(given["members"]),
        "epochs": whole("epochs", given["epochs"]),
        "batch_size": _optional("batch_size", given),
        "optimizer": given["optimizer"],
        "learning_rate": positive("learning_rate", given["learning_rate"]),
        "schedule": [rule(step, 16) for step in range(16)],  # what it does is what it is
        "clip": None if given["clip"] is None else positive("clip", given["clip"]),
        "patience": _optional("patience", given),
        "standardize": given["standardize"],
        "bootstrap": given["bootstrap"],
        "seed": whole("seed", given["seed"]),
    }
    if given["standardize_targets"]:
        config["standardize_targets"] = True
    if given["precision"] not in PRECISIONS:
        raise NescioError(unknown("precision", given["precision"], PRECISIONS))
    if given["precision"] != PRECISIONS[0]:
        config["precision"] = given["precision"]
    if given["average"] is not None:
        config["average"] = real("average", given["average"])
    if given["unlabeled_size"] is not None:
        config["unlabeled_size"] = _optional("unlabeled_size", given)
        if given["unlabeled"] is None:
            raise NescioError("unlabeled_size is how many of the unlabeled inputs; give unlabeled=")
    check_options(config, validated=any(given[n] is not None for n in VALIDATIONS))
    named_optimizer(config["optimizer"])  # known?
    return config


VALIDATIONS = ("validation", "validation_rows")


def _optional(name: str, given: Mapping[str, Any]) -> int | None:
    return None if given[name] is None else whole(name, given[name])


def member_numbers(members: int | Sequence[int]) -> list[int]:
    """The members by number, each once."""
    if isinstance(members, Sequence) and not isinstance(members, str):
        numbers = [whole("members", member) for member in members]
    else:
        numbers = list(range(whole("members", members)))
    if not numbers or len(set(numbers)) < len(numbers):
        raise NescioError("members must be positive: a number, or different member numbers")
    return numbers


def whole(name: str, value: Any) -> int:
    """A whole number of any kind as an int."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise NescioError(f"{name} must be a whole number, got {value!r}") from error


def real(name: str, value: Any) -> float:
    """A number of any kind as a float."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise NescioError(f"{name} must be a number, got {value!r}") from error


def positive(name: str, value: Any) -> float:
    """A number above 0 and finite, as a float."""
    number = real(name, value)
    if not 0 < number < torch.inf:
        raise NescioError(f"{name} must be positive, got {value}")
    return number


def check_weighted(loss: Loss) -> None:
    """Refuse weights of samples for a loss that does not read them."""
    if not loss.weighted:
        raise NescioError(
            f"the loss {loss.description} reads no weights of samples; use one of "
            "losses.nll(), brier(), squared_error() and what is made of them"
        )


def check_options(config: Mapping[str, Any], *, validated: bool) -> None:
    """Refuse numbers that make no sense."""
    for name in ("epochs", "batch_size", "patience", "unlabeled_size"):
        value = config.get(name)
        if value is not None and not value > 0:
            raise NescioError(f"{name} must be positive, got {value}")
    decay = config.get("average")
    if decay is not None and not 0 < decay < 1:
        raise NescioError(f"average is a decay between 0 and 1, such as 0.999, got {decay}")
    if config["patience"] is not None and not validated:
        raise NescioError(
            "patience needs validation data: validation=(x, y), or validation_rows= of the data"
        )


@dataclass(frozen=True, kw_only=True)
class Own:
    """What each member has of its own; the members by their numbers of samples, fewest first."""

    order: list[int]  # their indices among the members that were asked for
    rows: Rows | None = None  # None: all samples
    validation_rows: Rows | None = None
    weight: Tensor | None = None  # (M, N) or (1, N), of samples
    units: Pair | None = None  # mean and deviation of the targets, (M, D)

    @property
    def is_in_order(self) -> bool:
        """Whether the members are as they were asked for."""
        return self.order == sorted(self.order)

    @property
    def places(self) -> list[int]:
        """Where each member that was asked for is."""
        return sorted(range(len(self.order)), key=self.order.__getitem__)

    def digests(self) -> dict[str, str]:
        """Fingerprints of what was given, for the folder of a run."""
        order = torch.tensor(self.order)
        weight = None if self.weight is None else (self.weight,)
        parts = {
            "rows": self.rows,
            "validation_rows": self.validation_rows,
            "sample_weight": weight,
        }
        return {name: digest(order, *part) for name, part in parts.items() if part is not None}


def own_samples(
    data: Pair,
    validation: Pair | None,
    loss: Loss,
    members: int,
    *,
    rows: Any,
    validation_rows: Any,
    sample_weight: Any,
    standardize_targets: bool,
) -> Own:
    """What members have of their own, checked."""
    if validation is not None and validation_rows is not None:
        raise NescioError("validation_rows are samples of the data; leave validation= out")
    if sample_weight is not None:
        check_weighted(loss)
    if standardize_targets and loss.head.task != "regression":
        raise NescioError(f"standardize_targets is for a regression; the head is {loss.head.name}")
    own = as_rows(rows, members, data[0])
    held = as_rows(validation_rows, members, data[0], "validation_rows")
    weight = as_weights(sample_weight, members, data[0], own)
    _check_labels(data[1], own, held, loss)
    units = target_units(data[1], own, members) if standardize_targets else None
    order = list(range(members))
    if own is not None:
        order = sorted(order, key=[len(part) for part in own].__getitem__)
    return Own(
        order=order,
        rows=None if own is None else tuple(own[index] for index in order),
        validation_rows=None if held is None else tuple(held[index] for index in order),
        weight=weight if weight is None or len(weight) == 1 else weight[order],
        units=None if units is None else (units[0][order], units[1][order]),
    )


def _check_labels(y: Tensor, rows: Rows | None, held: Rows | None, loss: Loss) -> None:
    """Refuse labels of a member that are all the same, or to validate it, all ignored."""
    if loss.head.task != "classification":
        return
    parts: Sequence[Any] = (...,) if rows is None else rows
    for member, own in enumerate(parts):
        whose = "" if rows is None else f" of member {member}"
        labels = _counted(y[own], loss)
        if not labels.numel() or labels.min() == labels.max():
            which = int(labels.min()) if labels.numel() else "ignored"
            raise NescioError(
                f"all training labels{whose} are {which}; a classifier needs two classes"
            )
    for member, own in enumerate(held or ()):
        if not _counted(y[own], loss).numel():
            raise NescioError(
                f"all labels in validation_rows of member {member} are ignored; give some that "
                "count"
            )


def _counted(labels: Tensor, loss: Loss) -> Tensor:
    valid, counts = without_ignored(labels, loss.ignore_index)
    return valid if counts is None else valid[counts]


def as_rows(rows: Any, members: int, x: Tensor, name: str = "rows") -> Rows | None:
    """The samples of each member as M index tensors; None where all members see all samples."""
    if rows is None:
        return None
    if not isinstance(rows, Sequence) and getattr(rows, "ndim", 2) != 2:
        raise NescioError(
            f"{name} must be (members, n), or a list with the indices of each member, got shape "
            f"{tuple(rows.shape)}{f'; for one member: [{name}]' if rows.ndim == 1 else ''}"
        )
    try:
        each = [as_tensor(own, f"{name} of a member") for own in rows]
    except TypeError as error:
        raise NescioError(
            f"{name} must be a list with the indices of each member, got {type(rows).__name__}"
        ) from error
    if each and all(own.ndim == 0 for own in each):
        raise NescioError(
            f"{name} must have a list of indices for each member, got one of numbers; for one "
            f"member: [{name}]"
        )
    if len(each) != members:
        raise NescioError(
            f"{name} are for {len(each)} member(s), but {members} are trained; give each member "
            f"its indices, or say members={len(each)}"
        )
    for member, own in enumerate(each):
        check_indices(own, len(x), f"{name} of member {member}")
    return tuple(own.long().to(x.device) for own in each)


def as_weights(given: Any, members: int, x: Tensor, rows: Rows | None) -> Tensor | None:
    """Weights of samples `(1, N)`, or `(M, N)` by member; None where all count alike."""
    if given is None:
        return None
    name = "sample_weight"
    weight = as_tensor(given, name).to(x.device)
    weight = weight if weight.is_floating_point() else weight.float()
    if tuple(weight.shape) not in ((len(x),), (members, len(x))):
        raise NescioError(
            f"{name} must have shape ({len(x)},), or ({members}, {len(x)}) by member, got "
            f"{tuple(weight.shape)}"
        )
    if not weight.isfinite().all() or (weight < 0).any():
        raise NescioError(f"{name} must be finite and not negative")
    weight = weight if weight.ndim == 2 else weight[None]
    for member in range(members):
        own = weight[member % len(weight)]
        if not (own if rows is None else own[rows[member]]).any():
            raise NescioError(f"{name} is 0 for all samples of member {member}; nothing to learn")
    return weight


def target_units(y: Tensor, rows: Rows | None, members: int) -> Pair:
    """Mean and deviation of the targets of each member's samples, `(M, D)` each."""
    wide = y.double()  # in float32 constant targets have a deviation of rounding noise
    each = [wide] if rows is None else [wide[own] for own in rows]
    for member, own in enumerate(each):
        constant = (own.amax(0) == own.amin(0)).nonzero()
        if len(constant):
            whose = "" if rows is None else f" in the rows of member {member}"
            raise NescioError(
                f"standardize_targets needs targets that vary; target {int(constant[0])} is always "
                f"{float(own[0, constant[0]]):g}{whose}; leave it out, or give other rows"
            )
    mean = torch.stack([own.mean(0) for own in each])
    scale = torch.stack([own.std(0, correction=0) for own in each])
    mean, scale = (part.to(y.dtype).expand(members, -1) for part in (mean, scale))
    return mean, scale
