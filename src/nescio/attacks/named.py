"""Attacks by name: FGSM, PGD, adversarial noise and adversarial samples."""

import math
from typing import Any

from nescio.attacks.ascent import Ascent, Attacked, Objective, Transform, attack
from nescio.attacks.norms import Norm, linf
from nescio.attacks.objectives import confidence, label_loss
from nescio.core import Schedule, constant
from nescio.core.registry import attacks

# Projected gradient ascent (Madry et al., 2018) on any objective.


@attacks.register
def pgd(
    objective: Objective,
    x: Any,
    y: Any = None,
    *,
    radius: float | None,
    steps: int = 40,
    step: float | None = None,
    norm: str | Norm = linf,
    schedule: str | Schedule = constant,
    start: str = "random",
    restarts: int = 1,
    best: bool = True,
    enough: float = math.inf,
    low: float = 0.0,
    high: float = 1.0,
    mask: Any = None,
    transform: Transform | None = None,
    draws: int = 1,
    batch_size: int = 128,
    seed: int = 0,
    progress: bool | None = False,
) -> Attacked:
    """Raise an objective by gradient steps of the inputs within a ball and a box.

    objective: `objective(x)`, or `objective(x, y)` where y is given, one value a sample:
    `attacks.confidence(net)`, `attacks.label_loss(net)`, `attacks.uncertainty(model, "log_odds")`,
    or any function of yours, such as minus a detector's score.
    x: floats, or images (N, C, H, W) of uint8, within [low, high].
    radius: of the ball in `norm` ("linf", "l2" or "l1"); None for the whole box.
    step: 2.5 * radius / steps by default; `schedule` is a factor for it.
    start: "random" (a point of the ball by seed and index) or "input". restarts: the best of so
    many, random from the second on. best: the best point met, the input among them, instead of
    the last. enough: stop an input whose value has reached this.
    mask: 1 where an input may change, of the shape of one input: a patch.
    transform: `transform(x, generator)`, drawn anew in each step and averaged over `draws`; these
    draws, and so the result, depend on the batch size. With best=True its value is too high, since
    the luckiest draw is kept. All else is the same for every batch size, up to rounding.
    """
    ascent = Ascent(radius, steps, step, norm, schedule, best, enough, low, high)
    return attack(
        objective,
        x,
        y,
        ascent=ascent,
        start=start,
        restarts=restarts,
        mask=mask,
        transform=transform,
        draws=draws,
        batch_size=batch_size,
        seed=seed,
        show=progress,
    )


# Adversarial noise (Hein et al., 2019): the surest point near an input that should be unsure.


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


# Adversarial samples: inputs near labeled ones that the network gets wrong.


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


# The fast gradient sign method (Goodfellow et al., 2015): one step to the edge of the ball.


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
