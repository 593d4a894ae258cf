"""Logits times a number, a vector or a matrix, plus an intercept: in every member."""

import math
from typing import Any

import torch
from torch import Tensor

from nescio.calibration.map import State
from nescio.core import Categorical, Classification, NescioError


def affine(prediction: Classification, state: State, **_: Any) -> Categorical:
    """The members' logits `W z + b`, before the average."""
    return Categorical(transformed(logits_of(prediction), state))


def transformed(logits: Tensor, state: State) -> Tensor:
    """`W z + b`, with W a number `()`, one per class `(C,)` or a matrix `(C, C)`."""
    weight, intercept = (state[name].to(logits) for name in ("weight", "intercept"))
    if weight.ndim == 2:
        check_finite(logits)
        return logits @ weight.T + intercept
    return weight * logits + intercept


def logits_of(prediction: Classification) -> Tensor:
    """Logits of each member, in float32 at least; of other predictions their log probabilities."""
    wide = widened(prediction)
    return wide.logits if isinstance(wide, Categorical) else wide.member_log_probs


def widened(prediction: Classification) -> Classification:
    """The prediction in float32 at least."""
    given = (
        prediction.logits if isinstance(prediction, Categorical) else prediction.member_log_probs
    )
    return prediction if given.dtype.itemsize >= 4 else prediction.to(torch.float32)


def check_finite(logits: Tensor) -> None:
    """Refuse classes that are ruled out: no weight moves them, and a matrix spreads them."""
    if logits.isinf().any():
        lost = int(logits.isinf().any(-1).any(0).sum())
        raise NescioError(
            f"{lost} sample(s) have a class of probability 0, whose logarithm, -inf, can have no "
            "weight; give logits, or use temperature, isotonic or histogram"
        )


def refuse_perfect(logits: Tensor, labels: Tensor) -> None:
    """Where no member ranks a class above the label, the likelihood grows without end."""
    index = labels.to(logits.device).expand(logits.shape[:-1])[..., None]
    own = logits.gather(-1, index)[..., 0]
    if (own == logits.amax(-1)).all():
        raise NescioError(
            "every calibration sample is classified right, so the likelihood grows without end as "
            "the temperature goes to 0; use more, or harder, calibration data"
        )
    if lost := int((own == -math.inf).all(0).sum()):
        raise NescioError(
            f"{lost} calibration sample(s) have labels of probability 0, so the likelihood is 0 "
            "whatever is fitted; give logits, or check the labels"
        )


def refuse_missing(classes: int, labels: Tensor) -> None:
    """Where a class has no calibration sample, nothing is known of its numbers."""
    missing = classes - len(labels.unique())
    if missing:
        raise NescioError(
            f"{missing} of {classes} classes have no calibration sample, so their numbers would "
            "run away; use temperature scaling or more calibration data"
        )
