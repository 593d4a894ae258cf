"""Adaptive sets without the long tail (Angelopoulos, Bates, Malik and Jordan, 2021)."""

from typing import Any

from torch import Tensor

from nescio.conformal.adaptive import ranked
from nescio.conformal.sets import Sets, calibrate, scores
from nescio.core import Array, Classification, NescioError
from nescio.core.registry import conformal_methods


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

    penalty: what each rank beyond `free` adds to a class's score. Choose both without the
    calibration samples. The other options are those of `adaptive`.
    """
    if not 0 <= penalty < float("inf") or free < 0:
        raise NescioError(
            f"penalty must be finite and free a number of ranks, both from 0 up, got {penalty} "
            f"and {free}"
        )
    return calibrate(
        "regularized_adaptive",
        prediction,
        labels,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        never_empty=never_empty,
        seed=seed,
        penalty=float(penalty),
        free=int(free),
    )


@scores.named("regularized_adaptive")
def score(log_probs: Tensor, u: Tensor | None, *, penalty: float, free: int) -> Tensor:
    """The adaptive score and the penalty of the rank."""
    before, rank = ranked(log_probs, u)
    return before + penalty * (rank - free).clamp(min=0)
