"""How the predicted deviation of a regression grows along a ray, from the exact outputs far away.

Beyond its last breakpoint a ReLU network is affine in t. So the mean of a Gaussian head moves like
t, while its variance, the softplus of an output, grows like t (the deviation like its square root),
stays, or falls to the floor. Members whose means have different slopes disagree by a deviation that
grows like t.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from nescio.core import Head, NescioError, one_thread
from nescio.evaluation.audit.far_field_section import SMALL, Rays, quantiles
from nescio.evaluation.regression.regression_findings import SpreadFarField, SpreadRays
from nescio.geometry import FarOutputs, far_outputs
from nescio.models import Member, Predictor, networks

SHRINKS, BOUNDED, ROOT, LINEAR = -1.0, 0.0, 0.5, 1.0  # the exponents of t; the first: to the floor


def far_spreads(
    predictor: Predictor, rays: dict[str, Rays], *, tick: Callable[[], None] = lambda: None
) -> SpreadFarField:
    """How the predicted deviation grows along rays, by their kind; or why it is not known."""
    try:
        members = networks(predictor)
        if members[0].head.name not in GROWTH:
            raise NescioError(
                f"how the spread of the head {members[0].head.name!r} grows is not known; it is "
                f"for {', '.join(GROWTH)}"
            )
        small = sum(weights.numel() for weights in members[0].net.parameters()) < SMALL
        found = {}
        with one_thread() if small else nullcontext():
            for name, (origin, direction, start) in rays.items():
                far = far_outputs(predictor, origin, direction)
                found[name] = _summary(far, members, start)
                tick()
    except NescioError as error:
        return SpreadFarField(skipped=str(error))
    return SpreadFarField(rays=found)


def _summary(far: FarOutputs, members: list[Member], start: float) -> SpreadRays:
    slope, apart, growth = _mixture(far, members)
    moving = slope.abs() > _bound(far, members)
    linear = growth == LINEAR
    limit = (slope.abs() / apart)[linear & (apart > 0)]

    def share(flags: Tensor) -> float:
        return flags.double().mean().item()

    return SpreadRays(
        count=len(slope),
        start=start,
        shrinks=share(growth == SHRINKS),
        bounded=share(growth == BOUNDED),
        root=share(growth == ROOT),
        linear=share(linear),
        outrun=share(moving & (growth < LINEAR)),
        undecided=share(growth.isnan()),
        radius=quantiles(far.radius.amax(0)),
        deviations=limit.median().item() if len(limit) else None,
    )


def _mixture(far: FarOutputs, members: list[Member]) -> tuple[Tensor, Tensor, Tensor]:
    """Of the mixture, `(N, D)` each: the mean's slope, the deviation's, and how the latter grows.

    The exponent of t is NaN where rounding leaves it open.
    """
    slopes, scales, exponents = [], [], []
    for member, raw, sign in zip(members, far.slope, far.sign, strict=True):
        slopes.append(mean_slope(member.head, raw))
        exponents.append(GROWTH[member.head.name](sign, slopes[-1].shape[-1]))
        scales.append(_scale_slope(member.head, raw, slopes[-1]))
    mean = torch.stack(slopes)
    apart = (mean - mean.mean(0)).square().mean(0)
    growth = torch.stack(exponents).amax(0)  # NaN where one is
    if len(members) > 1:
        wide = (mean.amax(0) - mean.amin(0)) > 2 * _bound(far, members)
        growth = torch.where(wide, LINEAR, growth)
        close = ~wide & (mean.amax(0) != mean.amin(0))
        growth = torch.where(close & (growth < LINEAR), torch.nan, growth)
    return mean.mean(0), (apart + torch.stack(scales).mean(0)).sqrt(), growth


def mean_slope(head: Head, raw: Tensor) -> Tensor:
    """The slope `(N, D)` of the means, in the unit of the targets: `center` is affine in them."""
    return (head.center(raw[None]) - head.center(torch.zeros_like(raw)[None]))[0]


def _units(head: Head, raw: Tensor) -> Tensor:
    """What one unit of an output is in the unit of each target, `(N, D)`."""
    return mean_slope(head, torch.ones_like(raw))


def _bound(far: FarOutputs, members: list[Member]) -> Tensor:
    """What rounding may have done to the slopes of the means, `(N, D)`, at most."""
    parts = [
        error[:, None] * _units(member.head, raw).abs()
        for member, raw, error in zip(members, far.slope, far.error, strict=True)
    ]
    return torch.stack(parts).amax(0)


def _scale_slope(head: Head, raw: Tensor, mean: Tensor) -> Tensor:
    """The squared slope `(N, D)` of a deviation that grows like t: a Laplace density's."""
    if head.name != "double_exponential":
        return torch.zeros_like(mean)
    slope = raw.chunk(2, dim=-1)[1].clamp_min(0) * _units(head, raw)
    return 2 * slope.square()


def _gaussian(sign: Tensor, _: int) -> Tensor:
    raw = sign.chunk(2, dim=-1)[1]
    return torch.where(raw > 0, ROOT, raw)  # -1, 0 and NaN stay


def _double_exponential(sign: Tensor, _: int) -> Tensor:
    return sign.chunk(2, dim=-1)[1]


def _fixed(sign: Tensor, targets: int) -> Tensor:
    return sign.new_zeros(len(sign), targets)


def _normal_inverse_gamma(sign: Tensor, __: int) -> Tensor:
    """The variance is beta (1 + nu) / (nu (alpha - 1)), each the softplus of an output."""
    _, _, alpha, beta = sign.chunk(4, dim=-1)
    growth = torch.where((beta > 0) & (alpha <= 0), ROOT, BOUNDED)
    growth = torch.where((alpha > 0) & (beta <= 0), SHRINKS, growth)
    return torch.where(alpha.isnan() | beta.isnan(), torch.nan, growth)


GROWTH: dict[str, Callable[[Tensor, int], Tensor]] = {
    "gaussian": _gaussian,
    "double_exponential": _double_exponential,
    "fixed_variance": _fixed,
    "normal_inverse_gamma": _normal_inverse_gamma,
}
