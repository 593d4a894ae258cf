"""Outlier exposure (Hendrycks et al., 2019): the cross-entropy to uniform on a real out-set.

logsumexp(z) - mean(z) is the cross-entropy of the uniform distribution to the softmax of z.
"""

from dataclasses import replace

from nescio.data.outside import Outside
from nescio.losses.ceda import ceda
from nescio.losses.loss import Loss
from nescio.registry import losses


@losses.register
def outlier_exposure(
    base: Loss, outside: Outside, *, weight: float = 0.5, share: float = 1.0
) -> Loss:
    """Add `weight` times the cross-entropy to the uniform distribution on outliers.

    Test on other out-sets than `outside`: a network knows what it was shown.
    """
    loss = ceda(base, outside, weight=weight, form="uniform", share=share)
    text = f"outlier_exposure({base.description}, {outside.description}, {weight=}, {share=})"
    return replace(loss, description=text)
