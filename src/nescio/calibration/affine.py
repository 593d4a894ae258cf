"""Logits times a number, a vector or a matrix, plus an intercept: in every member."""

import torch
from torch import Tensor

from nescio.calibration.map import State
from nescio.errors import NescioError
from nescio.prediction import Categorical, Classification


def affine(prediction: Classification, state: State) -> Categorical:
    """The members' logits `W z + b`, before the average."""
    return Categorical(transformed(logits_of(prediction), state))


def transformed(logits: Tensor, state: State) -> Tensor:
    """`W z + b`, with W a number `()`, one a class `(C,)` or a matrix `(C, C)`."""
    weight, intercept = (state[name].to(logits) for name in ("weight", "intercept"))
    if weight.ndim == 2:
        check_finite(logits)
        return logits @ weight.T + intercept
    return weight * logits + intercept


def logits_of(prediction: Classification) -> Tensor:
    """Logits of each member, in float32 at least; of other predictions their log probabilities."""
    found = (
        prediction.logits if isinstance(prediction, Categorical) else prediction.member_log_probs
    )
    return found if found.dtype in (torch.float32, torch.float64) else found.float()


def check_finite(logits: Tensor) -> None:
    """Refuse classes that are ruled out: they would rule out every class they are mixed into."""
    if logits.isinf().any():
        lost = int(logits.isinf().any(-1).any(0).sum())
        raise NescioError(
            f"{lost} case(s) have a class of probability 0, whose logarithm cannot be multiplied "
            "by a matrix; give logits, or use temperature, isotonic or histogram"
        )


def refuse_perfect(prediction: Classification, labels: Tensor) -> None:
    """Where all members get every held-out case right, the likelihood grows without end."""
    found = prediction.member_log_probs.argmax(-1)
    if (found == labels.to(found.device)).all():
        raise NescioError(
            "every held-out case is classified right, so the likelihood grows without end as the "
            "temperature goes to 0; use more, or harder, held-out data"
        )


def refuse_missing(prediction: Classification, labels: Tensor) -> None:
    """Where a class has no held-out case, nothing is known of its own numbers."""
    missing = prediction.classes - len(labels.unique())
    if missing:
        raise NescioError(
            f"{missing} of {prediction.classes} classes have no held-out case, so their intercepts "
            "would run away; use temperature scaling or more held-out data"
        )
