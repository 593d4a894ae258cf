"""Absolute error of the predicted mean."""

from nescio.heads import Head, fixed_variance
from nescio.losses.loss import Loss, pointwise
from nescio.losses.squared_error import mean
from nescio.registry import losses


@losses.register
def absolute_error(head: Head | None = None) -> Loss:
    """|y - mean|, summed over targets and averaged over cases; the spread is not trained."""
    head = head or fixed_variance()
    return pointwise(
        "absolute_error", head, lambda outputs, y: (y - mean(head, outputs)).abs().sum(-1)
    )
