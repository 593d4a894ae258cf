"""The maximum softmax probability (Hendrycks and Gimpel, 2017)."""

import math

from torch import Tensor

from nescio.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.registry import detectors


@detectors.register
def msp(*, temperature: float = 1.0) -> Detector:
    """Minus the log-odds of the most probable class: the order of 1 - p, where p rounds to 1 too.

    temperature: divides the logits first.
    """
    return Detector("msp", {"temperature": temperature})


@scores.named("msp")
def score(view: View, state: State, layers: tuple[str, ...], *, temperature: float) -> Tensor:
    """Log of the sum of the other classes' probabilities, minus that of the largest."""
    del state, layers
    logits = view.logits / temperature
    top, label = logits.max(-1, keepdim=True)
    return logits.scatter(-1, label, -math.inf).logsumexp(-1) - top[:, 0]
