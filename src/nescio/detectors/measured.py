"""Any uncertainty measure of the members' answers as a detector."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core import heads as _heads  # noqa: F401 (fills the registry)
from nescio.core import measures as _measures  # noqa: F401 (fills the registry)
from nescio.core.registry import detectors, heads, measures
from nescio.detectors.detector import Detector, joint

NUMBERS = 1 << 19  # of a block, all members


@detectors.register
def measured(
    measure: str,
    *,
    head: str = "categorical",
    head_options: Mapping[str, float] | None = None,
    **options: Any,
) -> Detector:
    """An uncertainty measure of all networks' answers together, such as mutual information.

    measure: a name of `nescio.measures`; one score for all networks, not one each.
    head: how outputs are read: "categorical" logits, "dirichlet", "gaussian" and so on, a name of
    `nescio.heads`.
    head_options: of the head, such as its floor.
    options: of the measure, such as base.
    """
    chosen: dict[str, Any] = {
        "measure": measure,
        "head": head,
        "head_options": dict(head_options or {}),
        "options": options,
    }
    _check_options(measures[measure], measure, options)
    _check_options(heads[head], head, head_options or {})
    score(torch.zeros(2, 1, 2), **chosen)  # a measure must read what the head gives
    return Detector(name="measured", options=chosen)


@joint.named("measured")
def score(
    logits: Tensor,
    *,
    measure: str,
    head: str,
    head_options: Mapping[str, float],
    options: Mapping[str, Any],
) -> Tensor:
    """The measure of logits `(M, N, C)`, `(N,)`."""
    read, value = heads[head](**head_options), measures[measure]
    size = max(1, NUMBERS // (logits.shape[0] * logits.shape[2]))
    return torch.cat([value(read(part), **options) for part in logits.split(size, 1)])


def _check_options(part: Any, name: str, options: Mapping[str, Any]) -> None:
    known = [option for option in inspect.signature(part).parameters if option != "prediction"]
    for option in options:
        if option not in known:
            raise NescioError(
                f"{name} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
