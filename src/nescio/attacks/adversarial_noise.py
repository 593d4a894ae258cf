"""Adversarial noise (Hein et al., 2019): the surest point near an input that should be unsure."""

from typing import Any

from nescio.attacks.attack import Attacked
from nescio.attacks.objectives import confidence
from nescio.attacks.pgd import pgd
from nescio.registry import attacks


@attacks.register
def adversarial_noise(
    source: object,
    x: Any,
    *,
    radius: float | None = 0.3,
    steps: int = 200,
    step: float | None = 0.0075,
    **options: Any,
) -> Attacked:
    """Raise the confidence, whatever the class; the defaults are the paper's test attack.

    With radius=None the whole box is searched: fooling images. Other options as in `pgd`.
    """
    return pgd(confidence(source), x, radius=radius, steps=steps, step=step, **options)
