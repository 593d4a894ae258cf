"""The fast gradient sign method (Goodfellow et al., 2015): one step to the edge of the ball."""

from typing import Any

from nescio.attacks.ascent import Ascent
from nescio.attacks.attack import Attacked, Objective, attack
from nescio.attacks.norms import Norm, linf
from nescio.registry import attacks


@attacks.register
def fgsm(
    objective: Objective,
    x: Any,
    y: Any = None,
    *,
    radius: float,
    norm: str | Norm = linf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    batch_size: int = 128,
) -> Attacked:
    """One step of size `radius` along the steepest direction, cut to the box.

    The input itself is kept where the step lowers the objective.
    """
    ascent = Ascent(radius, 1, radius or None, norm, low=low, high=high)
    return attack(objective, x, y, ascent=ascent, start="input", mask=mask, batch_size=batch_size)
