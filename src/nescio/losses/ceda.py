"""Unsure on other inputs: CEDA (Hein et al., 2019), outlier exposure (Hendrycks et al., 2019).

The first paper speaks of a uniform distribution on noise, its equation 3 of the largest
log-probability: the same minimum, other gradients. `form` has both. Outlier exposure is the
cross-entropy logsumexp(z) - mean(z) to the uniform distribution, on a real data set.
"""

from dataclasses import replace

from torch import Tensor

from nescio.core import Rng
from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.loss import Batch, Loss
from nescio.losses.with_ood import Form, check, confidence_term, draw, turns, with_others
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
    """Add `weight` times the mean confidence term on OOD inputs, in one batch with the others.

    base: the loss that the term is added to.
    ood: source of the OOD inputs, in the units of the training inputs; a network that reads pixels
      of 0 to 255 learns nothing from noise in [0, 1].
    weight: factor on the term.
    form: "max", the largest log-probability (equation 3), "uniform", the cross-entropy to the
      uniform distribution, or, for concentrations, "flat", the divergence from the flat Dirichlet.
    share: number of OOD inputs per training sample.
    pool: number of OOD inputs that take turns; None: new ones in every step.
    """
    check(base, ood, weight, form, share, pool)

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        index = turns(ood, batch, rng, share, pool).index
        in_dist, outputs = with_others(base, forward, batch, rng, draw(ood, index, batch))
        return in_dist + weight * confidence_term(base.head, outputs, form)

    text = f"ceda({base.description}, {ood.description}, {weight=}, {form=}, {share=}, {pool=})"
    return base.with_step(text, step)


@losses.register
def outlier_exposure(
    base: Loss, ood: OODSource, *, weight: float = 0.5, share: float = 1.0
) -> Loss:
    """Add `weight` times the cross-entropy to the uniform distribution on outliers.

    Test on other OOD sets than `ood`: a network knows what it was shown.

    base: the loss that the term is added to.
    ood: source of the outliers, in the units of the training inputs.
    weight: factor on the cross-entropy.
    share: number of outliers per training sample.
    """
    loss = ceda(base, ood, weight=weight, form="uniform", share=share)
    text = f"outlier_exposure({base.description}, {ood.description}, {weight=}, {share=})"
    return replace(loss, description=text)
