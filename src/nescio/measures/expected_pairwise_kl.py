"""Mean divergence between pairs of members (Malinin and Gales); at least the mutual information.

The mean of KL(p_i || p_j) over all pairs is the covariance over members of probability and log
probability, summed over classes: one pass, no pairs, no cancellation.
"""

import math

import torch
from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Classification, Dirichlet


@measure
def expected_pairwise_kl(prediction: Classification) -> Tensor:
    """Mean of KL(p_i || p_j) over all pairs of members; (C - 1) / precision for one Dirichlet."""
    probs = prediction.member_probs.double()
    within = torch.zeros_like(probs[0, ..., 0])
    if isinstance(prediction, Dirichlet):  # pairs of draws: law of total covariance
        alpha = prediction.alpha.double()
        total = alpha.sum(-1, keepdim=True)
        logs = torch.digamma(alpha) - torch.digamma(total)
        within = ((prediction.classes - 1) / total[..., 0]).mean(0)
    else:
        logs = prediction.member_log_probs.double()
    terms = ((probs - probs.mean(0)) * (logs - logs.mean(0))).mean(0)
    zero = logs == -math.inf  # not where probabilities only underflow
    terms = torch.where(zero.any(0), torch.where(zero.all(0), 0.0, math.inf), terms)
    return (terms.sum(-1).clamp_min(0) + within).to(prediction.member_probs.dtype)
