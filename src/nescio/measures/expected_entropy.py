"""Average entropy of the members: data (aleatoric) uncertainty."""

import math

import torch
from torch import Tensor

from nescio.measures.measure import logarithm, measure
from nescio.measures.predictive_entropy import entropy
from nescio.prediction import Classification, Dirichlet


@measure
def expected_entropy(prediction: Classification, *, base: float = math.e) -> Tensor:
    """Mean entropy of the members (data uncertainty); for a Dirichlet the mean over its draws."""
    if isinstance(prediction, Dirichlet):
        return _dirichlet(prediction) / logarithm(base)
    return entropy(prediction.member_log_probs).mean(0) / logarithm(base)


def _dirichlet(prediction: Dirichlet) -> Tensor:
    alpha = prediction.alpha.double()  # digamma differences cancel in float32
    total = alpha.sum(-1, keepdim=True)
    terms = alpha / total * (torch.digamma(alpha + 1) - torch.digamma(total + 1))
    return -terms.sum(-1).mean(0).to(prediction.alpha.dtype)
