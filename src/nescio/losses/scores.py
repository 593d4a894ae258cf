"""Losses that only score the answers: NLL, Brier, squared and absolute error."""

from torch import Tensor
from torch.nn import functional as F

from nescio.core import Head, NescioError, categorical, fixed_variance
from nescio.core.registry import losses
from nescio.losses.loss import Loss, pointwise


@losses.register
def squared_error(head: Head | None = None) -> Loss:
    """(y - mean)^2, summed over targets and averaged over samples; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "squared_error", head, lambda outputs, y: (y - head.center(outputs)).square().sum(-1)
    )


def regression(head: Head | None) -> Head:
    """A head with a mean; a fixed variance where none is given."""
    head = head or fixed_variance()
    if head.task != "regression":
        raise NescioError(
            f"this error needs a regression head, got {head.name}; for classes use losses.brier()"
        )
    return head


@losses.register
def absolute_error(head: Head | None = None) -> Loss:
    """|y - mean|, summed over targets and averaged over samples; the spread is not trained."""
    head = regression(head)
    return pointwise(
        "absolute_error", head, lambda outputs, y: (y - head.center(outputs)).abs().sum(-1)
    )


@losses.register
def brier(head: Head | None = None) -> Loss:
    """Sum over classes of (p - onehot)^2, averaged over samples; not divided by the classes."""
    head = head or categorical()
    if head.task != "classification":
        raise NescioError(f"the Brier score needs class probabilities, the head is {head.name}")

    def score(outputs: Tensor, labels: Tensor) -> Tensor:
        probs = head.center(outputs).exp()
        return (probs - F.one_hot(labels, probs.shape[-1])).square().sum(-1)

    return pointwise("brier", head, score)


@losses.register
def nll(head: Head | None = None) -> Loss:
    """Negative log-likelihood in nats, summed over targets and averaged over samples."""
    head = head or categorical()
    return pointwise("nll", head, head.nll, head.nll_slope)
