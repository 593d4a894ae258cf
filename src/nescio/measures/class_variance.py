"""Variance of the class probabilities over members (Smith and Gal, 2018)."""

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Classification, Dirichlet


@measure
def class_variance(prediction: Classification) -> Tensor:
    """Population variance of the probabilities over members, averaged over classes."""
    probs = prediction.member_probs
    variance = (probs - probs.mean(0)).square().mean(0)
    if isinstance(prediction, Dirichlet):  # law of total variance
        precision = prediction.member_precision[..., None]
        variance = variance + (probs * (1 - probs) / (precision + 1)).mean(0)
    return variance.mean(-1)
