"""Brier score: squared distance of the probabilities from the label, a proper scoring rule."""

from torch import Tensor
from torch.nn import functional as F

from nescio.errors import NescioError
from nescio.heads import Head, categorical
from nescio.losses.loss import Loss, pointwise
from nescio.registry import losses


@losses.register
def brier(head: Head | None = None) -> Loss:
    """Sum over classes of (p - onehot)^2, averaged over cases; not divided by the classes."""
    head = head or categorical()
    if head.task != "classification":
        raise NescioError(f"the Brier score needs class probabilities, the head is {head.name}")
    return pointwise("brier", head, lambda outputs, labels: _score(head, outputs, labels))


def _score(head: Head, outputs: Tensor, labels: Tensor) -> Tensor:
    probs = head.centre(outputs).exp()
    return (probs - F.one_hot(labels, probs.shape[-1])).square().sum(-1)
