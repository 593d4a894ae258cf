"""Adversarial samples: inputs near labelled ones that the network gets wrong."""

from typing import Any

from nescio.attacks.attack import Attacked
from nescio.attacks.objectives import label_loss
from nescio.attacks.pgd import pgd
from nescio.registry import attacks


@attacks.register
def adversarial_samples(
    source: object,
    x: Any,
    y: Any,
    *,
    radius: float | None = 0.3,
    steps: int = 80,
    step: float | None = 0.0075,
    **options: Any,
) -> Attacked:
    """Raise the odds against the label; the defaults are the paper's for MNIST.

    The value is positive where the label has less than half. Other options as in `pgd`.
    """
    return pgd(label_loss(source), x, y, radius=radius, steps=steps, step=step, **options)
