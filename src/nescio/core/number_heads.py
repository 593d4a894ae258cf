"""Heads of numbers: a mean and a spread for each target.

The spread is softplus of an output plus a floor. The floor is an option of the head.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.densities import DoubleExponential, Gaussian
from nescio.core.errors import NescioError
from nescio.core.head import Head, Slope, check_positive, split_outputs
from nescio.core.prediction import Prediction
from nescio.core.registry import heads
from nescio.core.student_t import (
    StudentT,
    evidential_slope,
    kl_normal_inverse_gamma,
    log_student_t,
    predictive_scale,
)

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@heads.register
def gaussian(*, floor: float = 1e-6) -> Head:
    """Mean and variance, softplus(output) + floor, of D normal targets from 2 D outputs.

    floor: what is added to the softplus, above 0.
    """
    check_positive(floor, "floor")
    slope, options = partial(_gaussian_slope, floor), {"floor": floor}
    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("gaussian", options, 2, partial(split_outputs, floor), *densities, slope)


@heads.register
def fixed_variance(*, variance: float = 1.0) -> Head:
    """Mean of D normal targets from D outputs; the noise variance is known.

    variance: the variance of the noise.
    """
    check_positive(variance, "variance")

    def split(outputs: Tensor) -> tuple[Tensor, Tensor]:
        return outputs, torch.full_like(outputs, variance)

    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("fixed_variance", {"variance": variance}, 1, split, *densities)


@heads.register
def double_exponential(*, floor: float = 1e-6) -> Head:
    """Mean and scale, softplus(output) + floor, of D Laplace targets from 2 D outputs.

    floor: what is added to the softplus, above 0.
    """
    check_positive(floor, "floor")
    densities = DoubleExponential, _laplace_nll, _kl_laplace
    options = {"floor": floor}
    return _regression("double_exponential", options, 2, partial(split_outputs, floor), *densities)


@heads.register
def normal_inverse_gamma(*, floor: float = 1e-6) -> Head:
    """Student t densities of D targets and their evidence, from 4 D outputs (Amini et al., 2020).

    The outputs are the means, then nu, alpha - 1 and beta: softplus(output) + floor.

    floor: what is added to the softplus, above 0.
    """
    check_positive(floor, "floor")
    split = partial(evidence_of, floor)

    def nll(outputs: Tensor, y: Tensor) -> Tensor:
        mean, nu, alpha, beta = split(outputs)
        return -log_student_t(y, mean, predictive_scale(nu, alpha, beta), 2 * alpha).sum(-1)

    return Head(
        "normal_inverse_gamma",
        {"floor": floor},
        "regression",
        4,
        lambda outputs: StudentT.from_normal_inverse_gamma(*split(outputs)),
        lambda outputs: split(outputs)[0],
        nll,
        lambda p, q: kl_normal_inverse_gamma(split(p), split(q)).sum(-1),
        lambda outputs, y: (
            nll(outputs, y),
            evidence_rise(outputs, evidential_slope(y, *split(outputs))),
        ),
    )


def evidence_rise(outputs: Tensor, slopes: Sequence[Tensor]) -> Tensor:
    """Derivatives in the raw `outputs`, from the `slopes` in mean, nu, alpha and beta."""
    raw = outputs[..., outputs.shape[-1] // 4 :]
    return torch.cat([slopes[0], raw.sigmoid() * torch.cat([*slopes[1:]], dim=-1)], dim=-1)


def evidence_of(floor: float, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, nu, alpha and beta of raw outputs, each `(M, *batch, D)`.

    floor: what is added to the softplus of nu, alpha - 1 and beta.
    outputs: raw outputs, `(M, *batch, 4 D)`.
    """
    if outputs.shape[-1] % 4:
        raise NescioError(
            f"this head needs four outputs per target (mean, nu, alpha, beta), got "
            f"{outputs.shape[-1]}"
        )
    mean, *raw = outputs.chunk(4, dim=-1)
    nu, excess, beta = (F.softplus(part) + floor for part in raw)
    return mean, nu, 1 + excess, beta


def _regression(
    name: str,
    options: Mapping[str, float],
    width: int,
    split: Callable[[Tensor], tuple[Tensor, Tensor]],  # outputs -> mean, spread
    value: Callable[[Tensor, Tensor], Prediction],
    nll: Callable[[Tensor, Tensor, Tensor], Tensor],
    divergence: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    slope: Slope | None = None,
) -> Head:
    return Head(
        name,
        options,
        "regression",
        width,
        lambda outputs: value(*split(outputs)),
        lambda outputs: split(outputs)[0],
        lambda outputs, y: nll(*split(outputs), y),
        lambda p, q: divergence(*split(p), *split(q)),
        slope,
    )


def _gaussian_nll(mean: Tensor, variance: Tensor, target: Tensor) -> Tensor:
    scaled = (target - mean).square() / variance
    return (0.5 * (variance.log() + scaled) + HALF_LOG_TWO_PI).sum(-1)


def _gaussian_slope(floor: float, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    raw = outputs.chunk(2, dim=-1)[1]
    mean, variance = split_outputs(floor, outputs)
    pull = (mean - y) / variance
    excess = (mean - y) * pull  # squared error in units of the variance
    scores = (0.5 * (variance.log() + excess) + HALF_LOG_TWO_PI).sum(-1)
    spread = 0.5 * (1 - excess) / variance * raw.sigmoid()
    return scores, torch.cat([pull, spread], dim=-1)


def _kl_gaussian(m1: Tensor, v1: Tensor, m2: Tensor, v2: Tensor) -> Tensor:
    ratio = v1 / v2
    return 0.5 * (ratio - 1 - ratio.log() + (m1 - m2).square() / v2).sum(-1)


def _laplace_nll(mean: Tensor, scale: Tensor, target: Tensor) -> Tensor:
    return ((2 * scale).log() + (target - mean).abs() / scale).sum(-1)


def _kl_laplace(m1: Tensor, b1: Tensor, m2: Tensor, b2: Tensor) -> Tensor:
    gap = (m1 - m2).abs()
    return ((b2 / b1).log() + gap / b2 + b1 / b2 * (-gap / b1).exp() - 1).sum(-1)
