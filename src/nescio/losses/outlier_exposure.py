"""Outlier exposure (Hendrycks et al., 2019): the cross-entropy to uniform on a real OOD set.

logsumexp(z) - mean(z) is the cross-entropy of the uniform distribution to the softmax of z.
"""

from dataclasses import replace

from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.ceda import ceda
from nescio.losses.loss import Loss


@losses.register
def outlier_exposure(
    base: Loss, ood: OODSource, *, weight: float = 0.5, share: float = 1.0
) -> Loss:
    """Add `weight` times the cross-entropy to the uniform distribution on outliers.

    Test on other OOD sets than `ood`: a network knows what it was shown.
    """
    loss = ceda(base, ood, weight=weight, form="uniform", share=share)
    text = f"outlier_exposure({base.description}, {ood.description}, {weight=}, {share=})"
    return replace(loss, description=text)
