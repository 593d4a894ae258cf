"""The data and options of an audit, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from nescio.core import NescioError, as_inputs, as_targets, is_whole, shape_of
from nescio.data import Columns, door
from nescio.evaluation.audit.answers_only import unmoved
from nescio.evaluation.audit.cost import Job
from nescio.evaluation.audit.ood_section import check_shape, has_range
from nescio.evaluation.audit.sections import AuditPlan
from nescio.training import Pair

Labels: TypeAlias = Literal["needed", "optional", "unread"]


def check_options(
    predictors: Mapping[str, Any], ood: Any, alphas: Sequence[float], rays: Any
) -> None:
    """Refuse options of an audit that make no sense, before any work is done."""
    if not predictors:
        raise NescioError("nothing to audit: the mapping of networks is empty")
    if ood is not None and not isinstance(ood, Mapping):
        raise NescioError('OOD data come by name: ood={"letters": z}')
    ordered = all(a < b for a, b in pairwise(alphas))
    if not alphas or not ordered or not alphas[0] > 0 or not alphas[-1] < float("inf"):
        raise NescioError(f"alphas must be positive, increasing and finite, got {list(alphas)}")
    if rays is not None and not is_whole(rays, 0):
        raise NescioError(f"rays must be a whole number from 0 up, got {rays}")


def read_data(
    data: Any,
    name: str,
    *,
    tokens: bool,
    columns: Columns | None = None,
    task: str = "classification",
    labels: Labels = "needed",
    keep_bytes: bool = False,
) -> tuple[Any, Any]:
    """Inputs and labels, or targets, in memory; numbers that have a range as floats."""
    x, y = door.read(data, name=name, labels=labels == "needed", tokens=tokens, columns=columns)
    if isinstance(x, Tensor) and (has_range(x) or not tokens):
        x = as_inputs(x, name, keep_bytes=keep_bytes)
    if y is None or labels == "unread":
        return x, None
    return x, as_targets(y, len(x), task=task, dtype=torch.float64)


def read_validation(given: Any, x: Any, read: Any) -> Pair | None:
    """The validation data, if they fit the test inputs x."""
    if given is None:
        return None
    inputs, labels = read(given, "validation data")
    check_shape("validation inputs", inputs, x)
    return inputs, labels


def ray_sets(x: Any, count: int, seed: int) -> Any:
    """Rays that leave the data, by kind."""
    if not count:
        return {}
    from nescio.evaluation.audit.far_field_section import rays_from  # loads the geometry

    return rays_from(x, count=count, seed=seed)


def planned(
    plan: AuditPlan,
    predictors: Mapping[str, Any],
    x: Any,
    sets: int,
    alphas: Sequence[float],
    steps: int,
    rays: int | None,
) -> Job:
    """What costs something, without what is left out or needs inputs that have a range."""
    ranged = unmoved(x, predictors) is None
    return Job(
        predictors=predictors,
        x=x,
        sets=sets,
        alphas=tuple(alphas) if ranged and plan.wants("scaled inputs") else (),
        steps=steps if ranged and plan.wants("attack") else 0,
        rays=rays if ranged and plan.wants("far field") else 0,
    )


@dataclass(frozen=True, kw_only=True)
class AuditNames:
    """Names that belong to an audit: groups of test samples, classes, columns of a table."""

    groups: Mapping[str, tuple[str, ...]]
    classes: tuple[str, ...] | None
    columns: tuple[str, ...] | None


def named_parts(names: Mapping[str, Any], x: Any, encoding: Columns | None) -> AuditNames:
    """The names as given, checked; the columns of a raw table are those of its encoding."""
    classes, columns = names["class_names"], names["columns"]
    if columns is None and encoding is not None:
        columns = encoding.features
    if columns is not None and shape_of(x) != (len(columns),):
        raise NescioError(
            f"{len(columns)} names of columns for inputs of shape {shape_of(x)} per sample; give "
            "one for each number of a sample, or leave them out"
        )
    return AuditNames(
        groups=_groups(names["groups"], len(x)),
        classes=None if classes is None else tuple(map(str, classes)),
        columns=None if columns is None else tuple(map(str, columns)),
    )


def _groups(given: Any, samples: int) -> dict[str, tuple[str, ...]]:
    """By name the group of each test sample, as text."""
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {"group": given}
    found = {}
    for name, values in named.items():
        plain = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(plain, str) or len(plain) != samples:
            count = "one text" if isinstance(plain, str) else f"{len(plain):,} values"
            raise NescioError(
                f"groups {str(name)!r} must name the group of each of the {samples:,} test samples "
                f"in their order, got {count}"
            )
        found[str(name)] = tuple(map(str, plain))
    return found
