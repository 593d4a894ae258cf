"""Mutual information between label and member: knowledge (epistemic) uncertainty, BALD.

Computed as the mean divergence of the members from their mixture, which equals the difference of
total and data uncertainty (Smith and Gal, 2018) without its cancellation.
"""

import math

import torch
from torch import Tensor

from nescio.measures.measure import logarithm, measure
from nescio.prediction import Classification, Dirichlet


@measure
def mutual_information(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Total minus data uncertainty: how much the members disagree; at most log min(C, M)."""
    probs, logs = prediction.member_probs, prediction.member_log_probs
    gaps = torch.where(probs > 0, probs * (logs - prediction.log_probs), 0.0)
    information = gaps.sum(-1).mean(0).clamp_min(0)
    if isinstance(prediction, Dirichlet):
        information = information + _within(prediction)
    return information / logarithm(base)


def _within(prediction: Dirichlet) -> Tensor:
    alpha = prediction.alpha.double()
    total = alpha.sum(-1, keepdim=True)
    excess = torch.digamma(alpha + 1) - alpha.log() - torch.digamma(total + 1) + total.log()
    return (alpha / total * excess).sum(-1).mean(0).to(prediction.alpha.dtype)
