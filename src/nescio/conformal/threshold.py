"""All classes above one probability (Sadinle, Lei and Wasserman, 2019): the smallest sets."""

import math
from typing import Any

from torch import Tensor

from nescio.conformal.sets import Sets, calibrate, scores
from nescio.core import Array, Classification
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

    prediction, labels: of held-out samples; a classification, or logits `(N, C)` or `(M, N, C)`.
    miscoverage: the share of new samples whose label may be missed.
    by: None for all samples together, "class" for each class, or group numbers `(N,)`.
    randomize: break ties at random, so that the share is met exactly.
    never_empty: add the most probable class to every set.
    """
    return calibrate(
        "threshold",
        prediction,
        labels,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        never_empty=never_empty,
        seed=seed,
    )


@scores.named("threshold")
def score(log_probs: Tensor, u: Tensor | None) -> Tensor:
    """Log of (1 - p) / p: the order of 1 - p, also where p rounds to 1."""
    del u
    top = log_probs.argmax(-1, keepdim=True)
    others = log_probs.scatter(-1, top, -math.inf).logsumexp(-1, keepdim=True)
    rest = (-log_probs.exp().scatter(-1, top, 0.0)).log1p()  # at most 1/2 each, so accurate
    return rest.scatter(-1, top, others) - log_probs
