"""The maximum softmax probability (Hendrycks and Gimpel, 2017)."""

import math

from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.blocks import by_rows, check_classes, check_temperature, others

SMALL = 1e-30  # odds below it come near the smallest float32


@detectors.register
def msp(*, temperature: float = 1.0) -> Detector:
    """Minus the log-odds of the most probable class: the order of 1 - p, where p rounds to 1 too.

    temperature: divides the logits first.
    """
    return Detector("msp", {"temperature": check_temperature(temperature)})


@scores.named("msp")
def score(view: View, state: State, layers: tuple[str, ...], *, temperature: float) -> Tensor:
    """Log of the sum of the other classes' probabilities, minus that of the largest."""
    del state, layers
    return by_rows(check_classes(view.logits), temperature, log_odds)


def log_odds(logits: Tensor) -> Tensor:
    """Log of (1 - p) / p for the largest of each row; exact for any margin."""
    if logits.requires_grad:
        return _slowly(logits)
    odds = others((logits - logits.amax(-1, keepdim=True)).exp_())[0]
    far = odds < SMALL
    found = odds.log_()
    return found.masked_scatter(far, _slowly(logits[far])) if far.any() else found


def _slowly(logits: Tensor) -> Tensor:
    top, label = logits.max(-1, keepdim=True)
    return logits.scatter(-1, label, -math.inf).logsumexp(-1) - top[:, 0]
