"""Squared error of the predicted mean."""

from nescio.errors import NescioError
from nescio.heads import Head, fixed_variance
from nescio.losses.loss import Loss, pointwise
from nescio.registry import losses


@losses.register
def squared_error(head: Head | None = None) -> Loss:
    """(y - mean)^2, summed over targets and averaged over cases; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "squared_error", head, lambda outputs, y: (y - head.centre(outputs)).square().sum(-1)
    )


def regression(head: Head | None) -> Head:
    """A head with a mean; a fixed variance where none is given."""
    head = head or fixed_variance()
    if head.task != "regression":
        raise NescioError(
            f"this error needs a regression head, got {head.name}; for classes use losses.brier()"
        )
    return head
