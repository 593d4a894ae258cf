"""Differential entropy of a Dirichlet: how widely it spreads over the simplex."""

import torch
from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Dirichlet


@measure
def differential_entropy(prediction: Dirichlet) -> Tensor:
    """Differential entropy, averaged over members; negative without bound when sharp."""
    alpha = prediction.alpha.double()
    total = alpha.sum(-1)
    spread = (alpha - 1) * (torch.digamma(alpha) - torch.digamma(total)[..., None])
    value = (torch.lgamma(alpha) - spread).sum(-1) - torch.lgamma(total)
    return value.mean(0).to(prediction.alpha.dtype)
