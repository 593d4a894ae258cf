"""The entropy of the softmax probabilities (Shannon, 1948; for this use Steinhardt and Liang,
2016)."""

import torch
from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.blocks import by_rows, check_classes, check_temperature, others


@detectors.register
def entropy(*, temperature: float = 1.0) -> Detector:
    """The entropy of the class probabilities, in nats.

    temperature: divides the logits first. The entropy itself is too small for float32 where all
    other logits are 100 below the largest; `msp` goes on there.
    """
    return Detector("entropy", {"temperature": check_temperature(temperature)})


@scores.named("entropy")
def score(view: View, state: State, layers: tuple[str, ...], *, temperature: float) -> Tensor:
    """Minus the sum of p log p of each row."""
    del state, layers
    return by_rows(check_classes(view.logits), temperature, _entropy)


def _entropy(logits: Tensor) -> Tensor:
    """Log of the sum, plus the mean gap to the largest: two terms that are not negative."""
    if logits.requires_grad:
        return _slowly(logits)
    gaps = logits - logits.amax(-1, keepdim=True)
    powers = gaps.exp()
    rest, whole = others(powers)
    found = rest.log1p_().sub_(gaps.mul_(powers).sum(-1).div_(whole))
    lost = found.isnan()  # 0 times infinity, or a NaN that stays one
    return found.masked_scatter(lost, _slowly(logits[lost])) if lost.any() else found


def _slowly(logits: Tensor) -> Tensor:
    logs = logits.log_softmax(-1)
    return -torch.where(logs == -torch.inf, 0.0, logs.exp() * logs).sum(-1)
