"""Confidence enhancing data augmentation (Hein et al., 2019): unsure on noise.

The paper speaks of a uniform distribution on noise, its equation 3 of the largest log-probability:
the same minimum, other gradients. `form` has both.
"""

from torch import Tensor

from nescio.data.outside import Outside
from nescio.losses.beside import Form, check, draw, numbers, sureness, with_others
from nescio.losses.loss import Batch, Loss
from nescio.randomness import Rng
from nescio.registry import losses
from nescio.stacking import Forward


@losses.register
def ceda(
    base: Loss,
    outside: Outside,
    *,
    weight: float = 1.0,
    form: Form = "max",
    share: float = 1.0,
    pool: int | None = None,
) -> Loss:
    """Add `weight` times the mean sureness on inputs from outside, in one batch with the others.

    outside: in the units of the training inputs; a network that reads pixels of 0 to 255 learns
    nothing from noise in [0, 1].
    form: "max", the largest log-probability (equation 3), or "uniform", the cross-entropy to the
    uniform distribution. share: inputs from outside for each training case.
    pool: take turns among so many inputs from outside, instead of new ones in every step.
    """
    check(base, outside, weight, form, share, pool)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        index = numbers(outside, batch, rng, share, pool)
        inside, outputs = with_others(base, forward, batch, rng, draw(outside, index, batch))
        return inside + weight * sureness(outputs, form)

    text = f"ceda({base.description}, {outside.description}, {weight=}, {form=}, {share=}, {pool=})"
    return Loss(text, base.head, base.score, step)
