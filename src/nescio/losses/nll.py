"""Negative log-likelihood: the proper scoring rule behind maximum likelihood, for every head."""

from nescio.heads import Head, categorical
from nescio.losses.loss import Loss, pointwise
from nescio.registry import losses


@losses.register
def nll(head: Head | None = None) -> Loss:
    """Negative log-likelihood in nats, summed over targets and averaged over cases."""
    head = head or categorical()
    return pointwise("nll", head, head.nll, head.nll_slope)
