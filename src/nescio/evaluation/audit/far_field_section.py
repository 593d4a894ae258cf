"""The far field of a classifier for an audit: the limit of its confidence, and the distance."""

from collections.abc import Callable
from contextlib import nullcontext
from math import isfinite

import torch
from torch import Tensor

from nescio.core import NescioError, generator, one_thread
from nescio.evaluation.audit.findings import Factor, FarFieldFindings, RayFindings
from nescio.geometry import FarField, far_field, far_precision, first_confident
from nescio.geometry.tracing.instances import instances
from nescio.models import Predictor, networks

FOLLOWED = (10, 50)  # fewest and most rays that are followed to a level, by the members
WORK = 200  # members times rays that are followed
SMALL = 1_000_000  # weights below which a second thread only gets in the way
LEVELS = (0.95, 0.999)
PARTS = 20  # quantiles are kept at 0, 1/20, ..., 1
Rays = tuple[Tensor, Tensor, float]  # origins, directions, the factor at which the data lie


def rays_from(x: Tensor, *, count: int, seed: int) -> dict[str, Rays]:
    """Rays that leave the data, in units of the data's own scale.

    Random directions start at the mean and are at 1 as far away as the data are (root mean
    square). Those through test points are at 1 at the point. Single features start at a test point
    and move by standard deviations of the feature, up or down; features that never vary are left.
    """
    data = x.double().cpu().flatten(1)
    shape = (count, *x.shape[1:])
    center = data.mean(0)
    spread = (data - center).square().sum(1).mean().sqrt()
    draw = generator(seed, "far rays")
    random = torch.randn(count, data.shape[1], generator=draw, dtype=torch.float64)
    random *= spread / random.norm(dim=1, keepdim=True)
    points = data[torch.randint(len(data), (count,), generator=draw)]
    middle = center.expand(count, -1)
    rays = {
        "random directions": (middle, random, 1.0),
        "test points": (middle, points - center, 1.0),
    }
    deviation = data.std(0, correction=0)
    moving = deviation.nonzero().flatten()
    if len(moving):
        feature = moving[torch.randint(len(moving), (count,), generator=draw)]
        sign = 2.0 * torch.randint(2, (count,), generator=draw) - 1
        step = torch.zeros_like(points)
        step[torch.arange(count), feature] = sign * deviation[feature]
        rays["single features"] = (points, step, 0.0)
    return {
        name: (origin.reshape(shape), direction.reshape(shape), start)
        for name, (origin, direction, start) in rays.items()
    }


def far_away(
    predictor: Predictor,
    rays: dict[str, Rays],
    *,
    follow: bool = True,
    tick: Callable[[], None] = lambda: None,
) -> FarFieldFindings:
    """Limits, radii and factors along rays; or why the predictor has none.

    For several members the limits and factors are those of the averaged probabilities, and the
    radius is that of the last member to settle. follow: also look for the factors to levels of
    confidence, which takes hundreds of passes per ray.
    """
    try:
        nets = instances(predictor)
        small = sum(weights.numel() for weights in nets[0].net.parameters()) < SMALL
        with one_thread() if small else nullcontext():
            found = {}
            for name, (origin, direction, start) in rays.items():
                far = far_field(predictor, origin, direction)
                some = slice(max(FOLLOWED[0], min(FOLLOWED[1], WORK // len(nets))))
                factors = (
                    _factors(predictor, origin[some], direction[some], start) if follow else {}
                )
                found[name] = _summary(far, factors, start)
                tick()
    except NescioError as error:
        return FarFieldFindings(skipped=str(error), growing_precision=_precision(predictor, rays))
    return FarFieldFindings(rays=found, growing_precision=_precision(predictor, rays))


def _precision(predictor: Predictor, rays: dict[str, Rays]) -> dict[str, float] | None:
    """The share of rays, by kind, on which the precision of Dirichlets grows without bound."""
    try:
        if networks(predictor)[0].head.log_concentrations is None:
            return None
        with one_thread():
            return {name: far_precision(predictor, *ray[:2]).growing for name, ray in rays.items()}
    except NescioError:
        return None


def _factors(
    predictor: Predictor, origin: Tensor, direction: Tensor, start: float
) -> dict[float, Tensor]:
    """The factors to each level; a higher level is looked for from where the lower was reached."""
    factor = torch.full((len(origin),), start, dtype=torch.float64)
    found = {}
    for level in LEVELS:
        reached = factor.isfinite().nonzero()[:, 0]
        later = torch.full_like(factor, torch.inf)
        if len(reached):
            later[reached] = first_confident(
                predictor,
                origin[reached],
                direction[reached],
                confidence=level,
                start=factor[reached],
                pooled=True,
            ).factor
        found[level] = factor = later
    return found


def _summary(far: FarField, factors: dict[float, Tensor], start: float) -> RayFindings:
    limit = far.limit.mean(0)  # of the mixture
    kinds = {kind: float((far.kind == kind).mean()) for kind in ("one", "tie", "constant")}
    doubtful = torch.from_numpy((far.kind == "undecided").any(0))
    certain = (limit == 1).any(1) & ~doubtful  # every member puts all on one and the same class
    return RayFindings(
        count=len(limit),
        start=start,
        members=kinds,
        certain=certain.double().mean().item(),
        undecided=doubtful.double().mean().item(),
        mean_limit_confidence=limit.amax(1).mean().item(),
        radius=quantiles(far.radius.amax(0)),
        factor={
            f"{level:g}": Factor(
                rays=len(factor),
                reached=factor.isfinite().double().mean().item(),
                quantiles=quantiles(factor),
            )
            for level, factor in factors.items()
        },
    )


def quantiles(values: Tensor) -> tuple[float | None, ...]:
    """Order statistics at 0, 1/20, ..., 1, without interpolation; None, as in JSON: never."""
    ordered = values.sort().values.tolist()
    chosen = [ordered[round(k / PARTS * (len(ordered) - 1))] for k in range(PARTS + 1)]
    return tuple(value if isfinite(value) else None for value in chosen)
