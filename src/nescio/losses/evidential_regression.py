"""Evidential regression (Amini et al., 2020, eqs. 8 to 10)."""

import math
from dataclasses import replace

from torch import Tensor

from nescio.core import (
    Head,
    NescioError,
    evidence_of,
    evidence_rise,
    evidential_slope,
    normal_inverse_gamma,
)
from nescio.core.registry import losses
from nescio.losses.loss import Loss, pointwise


@losses.register
def evidential_regression(head: Head | None = None, *, weight: float = 0.01) -> Loss:
    """NLL of a Student t, plus `weight` times |y - mean| (2 nu + alpha): errors cost evidence.

    Targets must be standardized: the weight has their unit.

    head: how outputs are read; None: `nescio.heads.normal_inverse_gamma()`, and no other.
    weight: weight of the errors times the evidence.
    """
    head = head or normal_inverse_gamma()
    if head.name != "normal_inverse_gamma":
        raise NescioError(f"evidential_regression reads normal_inverse_gamma, not {head.name}")
    if not 0 <= weight < math.inf:
        raise NescioError(f"weight must not be negative, and finite, got {weight}")
    floor = head.options["floor"]

    def score(outputs: Tensor, y: Tensor) -> Tensor:
        mean, nu, alpha, _ = evidence_of(floor, outputs)
        return head.nll(outputs, y) + weight * ((y - mean).abs() * (2 * nu + alpha)).sum(-1)

    def slope(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        mean, nu, alpha, beta = evidence_of(floor, outputs)
        by_mean, by_nu, by_alpha, by_beta = evidential_slope(y, mean, nu, alpha, beta)
        by_mean = by_mean - weight * (y - mean).sign() * (2 * nu + alpha)
        error = weight * (y - mean).abs()
        rise = evidence_rise(outputs, (by_mean, by_nu + 2 * error, by_alpha + error, by_beta))
        return score(outputs, y), rise

    plain = pointwise("evidential_regression", head, score, slope)
    return replace(plain, description=f"{plain.description[:-1]}, {weight=})")
