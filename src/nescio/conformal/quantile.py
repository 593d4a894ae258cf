"""Quantiles, moved until they hold (Romano, Patterson and Candès, 2019)."""

import math
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from nescio.conformal.exact_quantiles import check_miscoverage
from nescio.conformal.prediction_intervals import Intervals, bands, calibrate
from nescio.conformal.residual import as_regression
from nescio.core import Array, DoubleExponential, Gaussian, NescioError, Regression, as_tensor
from nescio.core.registry import conformal_methods

CHUNK = 1 << 18  # numbers of a chunk in float64
HALVINGS = 64


@conformal_methods.register
def quantile(
    prediction: Regression | tuple[Array, Array],
    targets: Any,
    *,
    miscoverage: float = 0.1,
    by: Any = None,
    randomize: bool = False,
    seed: int = 0,
) -> Intervals:
    """Predicted quantiles, both moved out or in by one amount (CQR).

    prediction: a regression, whose mixture's quantiles at `miscoverage / 2` from both ends are
    taken, or a pair of lower and upper values `(N,)` or `(N, D)`, as a quantile network gives. The
    other options are those of `residual`.
    """
    return calibrate(
        "quantile",
        prediction,
        targets,
        miscoverage=miscoverage,
        by=by,
        randomize=randomize,
        seed=seed,
        tail=check_miscoverage(miscoverage) / 2,
    )


@bands.named("quantile")
def band(
    prediction: Regression | tuple[Array, Array], *, tail: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The two quantiles, in the unit of the target."""
    if isinstance(prediction, Regression):
        ends = mixture_quantile(prediction, tail), mixture_quantile(prediction, 1 - tail)
    elif isinstance(prediction, (tuple, list)) and len(prediction) == 2:
        low, high = (as_tensor(part, "quantiles").to(torch.float64) for part in prediction)
        ends = _columns(low), _columns(high)
    else:
        raise NescioError("quantile intervals need a regression, or a pair (lower, upper)")
    if ends[0].shape != ends[1].shape or not all(end.isfinite().all() for end in ends):
        raise NescioError(
            f"lower and upper quantiles must be finite and of one shape, got "
            f"{tuple(ends[0].shape)} and {tuple(ends[1].shape)}"
        )
    return *ends, torch.ones_like(ends[0])


def mixture_quantile(prediction: Regression, level: float) -> Tensor:
    """The quantile of the mixture of all members, `(N, D)`, to float64's precision."""
    if not isinstance(prediction, (Gaussian, DoubleExponential)):
        raise NescioError(f"no quantiles are known of a {type(prediction).__name__}")
    wide = as_regression(prediction)
    if not (wide.member_variance > 0).all():
        raise NescioError("a member with variance 0 has no quantiles; give the head a floor")
    size = max(1, CHUNK // (wide.members * wide.mean.shape[-1]))
    starts = range(0, len(wide), size)
    return torch.cat([_quantile(wide[start : start + size], level) for start in starts])


def _quantile(prediction: Regression, level: float) -> Tensor:
    """By halving: it lies between the smallest and the largest of the members' quantiles."""
    center, spread = prediction.mean, prediction.member_variance.sqrt()
    normal = isinstance(prediction, Gaussian)
    if normal:
        ends = center + spread * NormalDist().inv_cdf(level)
    else:
        spread = spread / math.sqrt(2)
        ends = center + spread * math.copysign(math.log1p(-abs(2 * level - 1)), level - 0.5)
    low, high = ends.amin(0), ends.amax(0)
    for _ in range(HALVINGS if len(center) > 1 else 0):
        middle = 0.5 * (low + high)
        z = (middle - center) / spread
        tail = -0.5 * (-z.abs()).expm1() * z.sign()  # of a Laplace density
        share = torch.special.ndtr(z) if normal else 0.5 + tail
        below = share.mean(0) < level
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)


def _columns(values: Tensor) -> Tensor:
    if values.ndim not in (1, 2):
        raise NescioError(f"quantiles must have shape (N,) or (N, D), got {tuple(values.shape)}")
    return values[:, None] if values.ndim == 1 else values
