"""One minus the largest class probability (Hendrycks and Gimpel, 2017)."""

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Classification


@measure
def least_confidence(prediction: Classification) -> Tensor:
    """One minus the largest probability, as the sum of the others, so that it does not saturate."""
    probs = prediction.log_probs.exp()
    return probs.scatter(-1, prediction.labels[..., None], 0.0).sum(-1)
