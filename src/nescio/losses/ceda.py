"""Confidence enhancing data augmentation (Hein et al., 2019): unsure on noise.

The paper speaks of a uniform distribution on noise, its equation 3 of the largest log-probability:
the same minimum, other gradients. `form` has both.
"""

from torch import Tensor

from nescio.core import Rng
from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import Form, check, draw, numbers, sureness, with_others
from nescio.nets.stack import Forward


@losses.register
def ceda(
    base: Loss,
    ood: OODSource,
    *,
    weight: float = 1.0,
    form: Form = "max",
    share: float = 1.0,
    pool: int | None = None,
) -> Loss:
    """Add `weight` times the mean log-confidence on OOD inputs, in one batch with the others.

    ood: in the units of the training inputs; a network that reads pixels of 0 to 255 learns
    nothing from noise in [0, 1].
    form: "max", the largest log-probability (equation 3), or "uniform", the cross-entropy to the
    uniform distribution. share: the number of OOD inputs per training sample.
    pool: reuse this number of OOD inputs in turn, instead of new ones in every step.
    """
    check(base, ood, weight, form, share, pool)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        index = numbers(ood, batch, rng, share, pool)
        in_dist, outputs = with_others(base, forward, batch, rng, draw(ood, index, batch))
        return in_dist + weight * sureness(outputs, form)

    text = f"ceda({base.description}, {ood.description}, {weight=}, {form=}, {share=}, {pool=})"
    return Loss(text, base.head, base.score, step)
