"""The log-odds against the predicted class: the order of least confidence, without underflow."""

import math

from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Classification


@measure
def log_odds(prediction: Classification) -> Tensor:
    """Log of (1 - p) / p for the predicted class; ranks where probabilities round to 1."""
    logs, label = prediction.log_probs, prediction.labels[..., None]
    others = logs.scatter(-1, label, -math.inf).logsumexp(-1)
    return others - logs.gather(-1, label)[..., 0]
