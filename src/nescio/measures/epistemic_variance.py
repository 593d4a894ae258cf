"""Variance of the member means, summed over targets: knowledge uncertainty."""

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Regression


@measure
def epistemic_variance(prediction: Regression) -> Tensor:
    """Variance of the member means, summed over targets: knowledge uncertainty."""
    return prediction.epistemic.sum(-1)
