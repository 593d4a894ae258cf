"""Mean divergence between pairs of members (Malinin and Gales); at least the mutual information."""

import torch
from torch import Tensor

from nescio.measures.expected_entropy import expected_entropy
from nescio.measures.measure import measure
from nescio.prediction import Classification, Dirichlet


@measure
def expected_pairwise_kl(prediction: Classification) -> Tensor:
    """Mean of KL(p_i || p_j) over all pairs of members; (C - 1) / precision for one Dirichlet."""
    if isinstance(prediction, Dirichlet):
        alpha = prediction.alpha.double()
        logs = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))
    else:
        logs = prediction.member_log_probs
    probs = prediction.probs.to(logs.dtype)
    cross = -torch.where(probs > 0, probs * logs.mean(0), 0.0).sum(-1)
    gap = cross - expected_entropy(prediction.to(logs.dtype))
    return gap.clamp_min(0).to(prediction.probs.dtype)
