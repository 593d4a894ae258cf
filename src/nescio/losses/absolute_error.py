"""Absolute error of the predicted mean."""

from nescio.heads import Head
from nescio.losses.loss import Loss, pointwise
from nescio.losses.squared_error import regression
from nescio.registry import losses


@losses.register
def absolute_error(head: Head | None = None) -> Loss:
    """|y - mean|, summed over targets and averaged over cases; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "absolute_error", head, lambda outputs, y: (y - head.centre(outputs)).abs().sum(-1)
    )
