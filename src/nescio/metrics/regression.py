"""Numbers about predictions of real targets: errors, CRPS, NLL, sharpness, scores of intervals.

Of several targets: the mean over targets of each target's number; but a log density is that of all
targets of a sample. Batches with more axes count every position as a sample.
"""

import math
from typing import Any

import torch
from torch import Tensor

from nescio.core import DoubleExponential, Gaussian, NescioError, Regression, StudentT, as_tensor
from nescio.core.registry import metrics

CHUNK = 1 << 20  # numbers of a chunk
SQRT_TWO_PI = math.sqrt(2 * math.pi)


@metrics.register
def rmse(prediction: Regression | Any, targets: Any) -> float:
    """The root of the mean squared error of each target, averaged over targets.

    prediction: a regression, whose mixture's mean is taken, or means `(N,)` or `(N, D)`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    means, y = means_and_targets(prediction, targets)
    return float((means - y).square().mean(0).sqrt().mean())


@metrics.register
def mae(prediction: Regression | Any, targets: Any) -> float:
    """The mean absolute error, over samples and targets.

    prediction: a regression, whose mixture's mean is taken, or means `(N,)` or `(N, D)`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    means, y = means_and_targets(prediction, targets)
    return float((means - y).abs().mean())


@metrics.register
def crps(prediction: Regression, targets: Any) -> float:
    """The continuous ranked probability score, in the unit of the targets; smaller is better.

    The integral of (F(t) - 1{y <= t})^2 over t, F the mixture's distribution function. It is
    E|X - y| - E|X - X'| / 2, in closed form for mixtures of normal (Grimit et al., 2006) and of
    Laplace densities, and for one Student t. Of members without spread it is that of the ensemble
    of their means; of one, the absolute error.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    return float(crps_values(prediction, targets).mean())


@metrics.register
def mixture_nll(prediction: Regression, targets: Any) -> float:
    """Mean -log density of the exact mixture of the members, all targets together, in nats.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    said, y = said_and_targets(prediction, targets)
    return float(-said.log_prob(y).mean())


@metrics.register
def moment_matched_nll(prediction: Regression, targets: Any) -> float:
    """As `mixture_nll`, of the normal density with the mixture's mean and variance.

    That is the approximation that the paper on deep ensembles (2017) reports. Several targets are
    taken as independent.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    return mixture_nll(moment_matched(prediction), targets)


@metrics.register
def sharpness(prediction: Regression) -> float:
    """The root of the mean predicted variance of each target, averaged over targets.

    In the unit of the targets. It says nothing about the truth; calibrated predictions that are
    right on average have the same RMSE.

    prediction: a regression, such as `nescio.Gaussian`.
    """
    variance = as_regression(prediction).mixture_variance
    return float(variance.mean(0).sqrt().mean())


@metrics.register
def interval_score(low: Any, high: Any, targets: Any, *, miscoverage: float = 0.1) -> float:
    """The width of an interval, plus 2 / miscoverage times what it misses the target by.

    Winkler (1972), Gneiting and Raftery (2007, eq. 43): its mean is smallest for the quantiles at
    miscoverage / 2 and 1 - miscoverage / 2.

    low, high: lower and upper ends of the intervals, `(N,)` or `(N, D)`; they may be infinite.
    targets: true targets, `(N,)` or `(N, D)`.
    miscoverage: share of targets that the intervals should miss.
    """
    return float(interval_values(low, high, targets, miscoverage).mean())


@metrics.register
def coverage(low: Any, high: Any, targets: Any) -> float:
    """The share of targets from `low` to `high`, ends included.

    `nescio.conformal.interval_coverage` has it by target and by group, with exact intervals.

    low, high: lower and upper ends of the intervals, `(N,)` or `(N, D)`; they may be infinite.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    below, above, y = ends_and_targets(low, high, targets)
    return float(((below <= y) & (y <= above)).double().mean())


def crps_values(prediction: Regression, targets: Any) -> Tensor:
    """The score of each sample and target, `(N, D)`, in float64.

    The M^2 pairs are never held at once: memory grows with the number of members.
    """
    said, y = said_and_targets(prediction, targets)
    if isinstance(said, StudentT) and said.members == 1:
        return _student_t_crps(said, y)
    if isinstance(said, Gaussian):
        spread, distance = said.variance, _normal_distance
    elif isinstance(said, DoubleExponential):
        spread, distance = said.scale, _laplace_distance
    else:
        raise NescioError(
            f"no closed form of the CRPS is known of {said.members} member(s) of the kind "
            f"{type(said).__name__}; use mixture_nll, or choose one member"
        )
    none, parts = torch.zeros((), dtype=torch.float64, device=said.device), []
    members, size = said.members, max(1, CHUNK // (said.members * y.shape[1]))
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        mean, own = said.mean[:, rows], spread[:, rows]
        to_target = distance(mean - y[rows], own, none).mean(0)
        apart = torch.zeros_like(to_target)
        for i in range(members):  # pairs with later members count twice
            each = distance(mean[i:] - mean[i], own[i:], own[i])
            apart += 2 * each.sum(0) - each[0]
        parts.append(to_target - apart / (2 * members**2))
    return torch.cat(parts)


def _student_t_crps(said: StudentT, y: Tensor) -> Tensor:
    """Jordan, Krüger and Lerch (2019): the score of one Student t density, `(N, D)`."""
    from scipy.special import betaln

    mean, scale, df = said.mean[0], said.scale[0], said.df[0]
    z = (y - mean) / scale
    shape = df.cpu().numpy()
    logs = betaln(0.5, shape - 0.5) - 2 * betaln(0.5, shape / 2)
    density = said._member_log_density(y)[0].exp() * scale  # of z
    near = z * (2 * said.member_cdf(y)[0] - 1) + 2 * density * (df + z.square()) / (df - 1)
    apart = 2 * df.sqrt() / (df - 1) * torch.as_tensor(logs).exp().to(df)
    return scale * (near - apart)


def _normal_distance(shift: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """E|X - X'| of two normal variables, by the difference of the means and the variances."""
    deviation = (first + second).sqrt()
    z = shift / deviation.where(deviation > 0, torch.ones_like(deviation))
    expected = shift * torch.erf(z / math.sqrt(2))
    expected = expected + 2 * deviation * (-0.5 * z.square()).exp() / SQRT_TWO_PI
    return expected.where(deviation > 0, shift.abs())


def _laplace_distance(shift: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """E|X - X'| of two Laplace variables, by the difference of the means d and the scales.

    d + (a^3 exp(-d/a) - b^3 exp(-d/b)) / (a^2 - b^2), written so that equal scales are no
    exception and close ones lose no digits.
    """
    d, one = shift.abs(), torch.ones_like(shift)
    a, b = torch.maximum(first, second).expand_as(d), torch.minimum(first, second).expand_as(d)
    safe = a.where(a > 0, one)
    gap = d * (a - b) / (safe * b.where(b > 0, one))
    ratio = (-(-gap).expm1() / gap.where(gap > 0, one)).where(gap > 0, one)  # 1 where equal
    inner = a.square() + a * b + b.square() + b.square() * d / safe * ratio
    return d + ((-d / safe).exp() * inner / (safe + b)).where(a > 0, torch.zeros_like(d))


def moment_matched(prediction: Regression) -> Gaussian:
    """The normal density with the mean and variance of the mixture, as one member."""
    said = as_regression(prediction)
    return Gaussian(said.mixture_mean[None], said.mixture_variance[None])


def interval_values(low: Any, high: Any, targets: Any, miscoverage: float) -> Tensor:
    """The interval score of each sample and target, `(N, D)`.

    low, high: lower and upper ends of the intervals, `(N,)` or `(N, D)`; they may be infinite.
    targets: true targets, `(N,)` or `(N, D)`.
    miscoverage: share of targets that the intervals should miss.
    """
    if not 0 < miscoverage < 1:
        raise NescioError(f"miscoverage must lie between 0 and 1, got {miscoverage}; try 0.1")
    below, above, y = ends_and_targets(low, high, targets)
    missed = (below - y).clamp(min=0) + (y - above).clamp(min=0)
    return (above - below) + 2 / miscoverage * missed


def as_regression(value: Any) -> Regression:
    """A regression with samples `(N,)`, in float64."""
    if not isinstance(value, Regression):
        raise NescioError(
            f"expected a regression such as nescio.Gaussian(mean, variance), got a "
            f"{type(value).__name__}; rmse and mae also take means"
        )
    said: Regression = value
    if len(said.batch_shape) != 1:
        said = said._map(lambda t: t.reshape(len(t), -1, t.shape[-1]))
    if not len(said):
        raise NescioError("the prediction is empty; give at least one sample to measure")
    return said.to(torch.float64)


def said_and_targets(prediction: Any, targets: Any) -> tuple[Regression, Tensor]:
    """The prediction of N samples and their targets `(N, D)`, in float64."""
    said = as_regression(prediction)
    return said, _columns("targets", targets, said.mean.shape[1:]).to(said.device)


def means_and_targets(prediction: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Means and targets, `(N, D)` each, in float64."""
    if isinstance(prediction, Regression):
        said, y = said_and_targets(prediction, targets)
        return said.mixture_mean, y
    means = _columns("means", prediction, None)
    return means, _columns("targets", targets, means.shape).to(means.device)


def ends_and_targets(low: Any, high: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of intervals and the targets, `(N, D)` each, in float64; ends may be infinite."""
    y = _columns("targets", targets, None)
    below, above = (
        _columns(name, end, y.shape, finite=False).to(y.device)
        for name, end in (("low", low), ("high", high))
    )
    if (below > above).any():
        raise NescioError(
            f"{int((below > above).sum())} intervals have their lower end above the upper one; are "
            "`low` and `high` in this order?"
        )
    return below, above, y


def _columns(name: str, value: Any, shape: Any, *, finite: bool = True) -> Tensor:
    """Numbers as `(N, D)` in float64; of one axis they are one target's."""
    found = as_tensor(value, name).detach()
    if found.dtype == torch.bool or found.is_complex() or not found.ndim:
        raise NescioError(f"`{name}` must be real numbers of shape (N,) or (N, D)")
    found = found[:, None] if found.ndim == 1 else found.reshape(-1, found.shape[-1])
    if not found.numel():
        raise NescioError(f"`{name}` is empty; give at least one sample to measure")
    if shape is not None and found.shape != shape:
        raise NescioError(
            f"`{name}` has shape {tuple(found.shape)}, expected {tuple(shape)}: one row per "
            "sample, one column per target"
        )
    if found.isnan().any() or (finite and not found.isfinite().all()):
        raise NescioError(f"`{name}` holds NaN or infinity; repair or drop those samples")
    return found.to(torch.float64)
