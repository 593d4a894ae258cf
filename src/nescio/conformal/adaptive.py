"""Classes from the most probable down until enough is gathered (Romano, Sesia and Candès, 2020)."""

from typing import Any

import torch
from torch import Tensor

from nescio.conformal.sets import Sets, calibrate, scores
from nescio.core import Array, Classification
from nescio.core.registry import conformal_methods


@conformal_methods.register
def adaptive(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
) -> Sets:
    """The most probable classes until their sum is enough (APS): larger sets for hard samples.

    Without `randomize` no set is empty, and coverage is at least the network's accuracy, however
    large `miscoverage`. With it, the last class is in by chance, so that the share is met exactly.
    The other options are those of `threshold`.
    """
    return calibrate(
        "adaptive",
        prediction,
        labels,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        never_empty=never_empty,
        seed=seed,
    )


@scores.named("adaptive")
def score(log_probs: Tensor, u: Tensor | None) -> Tensor:
    """The sum of the more probable classes, and a share u of the class itself."""
    return ranked(log_probs, u)[0]


def ranked(log_probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum before each class (and a share u of its own), and its rank from 1."""
    probs, order = log_probs.exp().sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(probs[:, :1]), probs.cumsum(-1)[:, :-1]], dim=-1)
    if u is not None:
        before = before + u[:, None] * probs
    rank = torch.arange(1, probs.shape[-1] + 1, device=order.device).expand_as(order)
    return before.scatter(-1, order, before), torch.empty_like(order).scatter(-1, order, rank)
