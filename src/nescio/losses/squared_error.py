"""Squared error of the predicted mean."""

from torch import Tensor

from nescio.errors import NescioError
from nescio.heads import Head, fixed_variance
from nescio.losses.loss import Loss, pointwise
from nescio.prediction import Regression
from nescio.registry import losses


@losses.register
def squared_error(head: Head | None = None) -> Loss:
    """(y - mean)^2, summed over targets and averaged over cases; the spread is not trained."""
    head = head or fixed_variance()
    return pointwise(
        "squared_error", head, lambda outputs, y: (y - mean(head, outputs)).square().sum(-1)
    )


def mean(head: Head, outputs: Tensor) -> Tensor:
    """The members' means `(M, N, D)` that a regression head reads from outputs."""
    if head.task != "regression":
        raise NescioError(
            f"this error needs a regression head, got {head.name}; for classes use losses.brier()"
        )
    prediction = head(outputs)
    assert isinstance(prediction, Regression)
    return prediction.mean
