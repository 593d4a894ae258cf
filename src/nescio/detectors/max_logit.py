"""The largest logit (Hendrycks et al., 2022)."""

from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores


@detectors.register
def max_logit() -> Detector:
    """Minus the largest logit."""
    return Detector("max_logit")


@scores.named("max_logit")
def score(view: View, state: State, layers: tuple[str, ...]) -> Tensor:
    """Minus the largest logit of each row."""
    del state, layers
    return -view.logits.amax(-1)
