"""Mean variance of the members, summed over targets: data uncertainty."""

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Regression


@measure
def aleatoric_variance(prediction: Regression) -> Tensor:
    """Mean variance of the members, summed over targets: data uncertainty."""
    return prediction.aleatoric.sum(-1)
