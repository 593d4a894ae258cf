"""Variance of the mixture, summed over targets: total uncertainty."""

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Regression


@measure
def total_variance(prediction: Regression) -> Tensor:
    """Variance of the mixture, summed over targets: total uncertainty."""
    return prediction.mixture_variance.sum(-1)
