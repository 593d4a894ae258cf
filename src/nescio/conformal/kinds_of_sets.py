"""Three kinds of prediction sets: by a threshold, adaptive, and adaptive without a long tail."""

import math
from typing import Any

import torch
from torch import Tensor

from nescio.conformal.sets import Sets, calibrate, scores
from nescio.core import Array, Classification, NescioError
from nescio.core.registry import conformal_methods


@conformal_methods.register
def threshold(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
) -> Sets:
    """Classes whose probability is high enough; the smallest sets on average.

    Sadinle, Lei and Wasserman (2019).

    prediction, labels: of calibration data; a classification, or logits `(N, C)` or `(M, N, C)`.
    miscoverage: the share of new samples whose label may be missed.
    by: None for all samples together, "class" for each class, or group numbers `(N,)`.
    randomize: break ties at random, by `seed`, so that the share is met exactly.
    never_empty: add the most probable class to every set.

        threshold(logits, labels, miscoverage=0.05)(new_logits)  # (N, C) booleans
    """
    options = miscoverage, by, randomize, never_empty, seed
    return calibrate("threshold", prediction, labels, *options, {})


@scores.named("threshold")
def _threshold(log_probs: Tensor, _: Tensor | None) -> Tensor:
    """Log of (1 - p) / p: the order of 1 - p, also where p rounds to 1."""
    top = log_probs.argmax(-1, keepdim=True)
    others = log_probs.scatter(-1, top, -math.inf).logsumexp(-1, keepdim=True)
    rest = (-log_probs.exp().scatter(-1, top, 0.0)).log1p()  # at most 1/2 each, so accurate
    return rest.scatter(-1, top, others) - log_probs


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

    Romano, Sesia and Candès (2020). Without `randomize` no set is empty, and coverage is at least
    the network's accuracy, however large `miscoverage`. With it, the last class is in by chance, so
    that the share is met exactly. The other options are those of `threshold`.

        adaptive(logits, labels)(new_logits)  # (N, C) booleans
    """
    options = miscoverage, by, randomize, never_empty, seed
    return calibrate("adaptive", prediction, labels, *options, {})


@scores.named("adaptive")
def _adaptive(log_probs: Tensor, u: Tensor | None) -> Tensor:
    """The sum of the more probable classes, and a share u of the class itself."""
    return _ranked(log_probs, u)[0]


def _ranked(log_probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum before each class (and a share u of its own), and its rank from 1."""
    probs, order = log_probs.exp().sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(probs[:, :1]), probs.cumsum(-1)[:, :-1]], dim=-1)
    if u is not None:
        before = before + u[:, None] * probs
    rank = torch.arange(1, probs.shape[-1] + 1, device=order.device).expand_as(order)
    return before.scatter(-1, order, before), torch.empty_like(order).scatter(-1, order, rank)


@conformal_methods.register
def regularized_adaptive(
    prediction: Classification | Array,
    labels: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    never_empty: bool = False,
    seed: int = 0,
    penalty: float = 0.01,
    free: int = 5,
) -> Sets:
    """As `adaptive`, with a penalty for each rank beyond the first few (RAPS): no very large sets.

    Angelopoulos, Bates, Malik and Jordan (2021).

    penalty: what each rank beyond `free` adds to a class's score. Choose both without the
    calibration samples. The other options are those of `adaptive`.

        regularized_adaptive(logits, labels, penalty=0.1)(new_logits)  # (N, C) booleans
    """
    if not 0 <= penalty < float("inf") or free < 0:
        raise NescioError(
            f"penalty must be finite and free a number of ranks, both from 0 up, got {penalty} "
            f"and {free}"
        )
    name, options = "regularized_adaptive", (miscoverage, by, randomize, never_empty, seed)
    penalties = {"penalty": float(penalty), "free": int(free)}
    return calibrate(name, prediction, labels, *options, penalties)


@scores.named("regularized_adaptive")
def _regularized(log_probs: Tensor, u: Tensor | None, *, penalty: float, free: int) -> Tensor:
    """The adaptive score and the penalty of the rank."""
    before, rank = _ranked(log_probs, u)
    return before + penalty * (rank - free).clamp(min=0)
