"""Infinitely far away: the answer of a network at the end of a ray, exactly."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.rays.at_infinity import Infinity, widest_layer
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_points,
    as_rays,
    blocks,
    check_classes,
    instances,
    together,
)

BYTES = 12 << 20  # of the widest layer of one block of rays: what stays near the processor
KINDS = ("one", "tie", "constant", "undecided")


@dataclass(frozen=True, eq=False, kw_only=True)
class LastRegion:
    """The affine map on the last region of each ray, and what the papers assume about it."""

    V: Tensor  # (N, C, D), or (M, N, C, D)
    a: Tensor  # (N, C)
    zero_entries: Tensor  # (N,) an entry of V is exactly 0
    duplicate_slopes: Tensor  # (N,) two classes grow equally fast along the ray
    tied_top: Tensor  # (N,) two classes grow fastest


@dataclass(frozen=True, eq=False, kw_only=True)
class FarField:
    """Logits beyond the last breakpoint of each ray: `slope * t + intercept` for t >= radius.

    Of a bare network the shapes are as below; of a model with M members `(M, ...)`.
    """

    slope: Tensor  # (N, C)
    intercept: Tensor  # (N, C)
    radius: Tensor  # (N,) the last breakpoint in units of the direction; 0 if there is none
    limit: Tensor  # (N, C) class probabilities as t grows without end
    kind: Any  # (N,) "one", "tie", "constant" or "undecided"
    last_region: LastRegion | None = None

    @property
    def confidence(self) -> Tensor:
        """The largest limit probability."""
        return self.limit.amax(-1)

    def logits(self, t: Any) -> Tensor:
        """The logits at factors t >= radius, a number or `(N,)`."""
        t = torch.as_tensor(t, dtype=torch.float64)
        if t.ndim and t.shape != self.radius.shape[-t.ndim :]:
            raise NescioError(f"factors {tuple(t.shape)} for radii {tuple(self.radius.shape)}")
        if not (t >= self.radius * (1 - 1e-12)).all():
            raise NescioError("a factor below the radius of its ray; geometry.ray follows it there")
        logits: Tensor = self.slope * t[..., None] + self.intercept
        return logits


def through_origin(x: Any) -> tuple[Tensor, Tensor]:
    """The rays `t * x`: origin and direction, for the functions that take both."""
    points = as_points(x, "x")
    return torch.zeros_like(points), points


def along_axis(x: Any, feature: int) -> tuple[Tensor, Tensor]:
    """The rays that scale one feature of x: at t = 1 they pass x itself.

    A sample whose feature is 0 does not move; its ray has no direction.
    """
    points = as_points(x, "x")
    size = points[0].numel()
    try:
        feature = operator.index(feature)
    except TypeError as error:
        raise NescioError(f"feature must be a whole number, got {feature!r}") from error
    if not -size <= feature < size:
        raise NescioError(f"feature {feature} of inputs with {size} features")
    origin = points.flatten(1).clone()
    direction = torch.zeros_like(origin)
    direction[:, feature] = origin[:, feature]
    origin[:, feature] = 0
    return origin.reshape(points.shape), direction.reshape(points.shape)


def far_field(
    source: Source, origin: Any, direction: Any, *, last_region: bool = False, exact: bool = False
) -> FarField:
    """The exact logits, limit and last breakpoint of the rays `origin + t * direction`.

    source: a network, a model or a predictor of nescio; each member is analyzed by itself.
    last_region: also give the affine map of the last region, by one backward pass per class.
    exact: compute in fractions, for networks of a few thousand weights; nothing is undecided then.
    The result is exact up to float64 rounding; kind is "undecided" where rounding could matter.
    """
    if exact:
        from nescio.geometry.exact.exact import exact_far_field

        return exact_far_field(source, origin, direction).rounded()
    start, way = as_rays(origin, direction)
    members = [far_field_of(instance, start, way, last_region) for instance in instances(source)]
    return together(source, members)


def far_field_of(
    instance: Instance, origin: Tensor, direction: Tensor, last_region: bool = False
) -> FarField:
    """The far field of one fixed network; origins and directions as `as_rays` gives them."""
    size = max(1, BYTES // (16 * max(1, widest_layer(instance, origin[:1], direction[:1]))))
    parts = [
        _block(instance, origin[rows], direction[rows], last_region)
        for rows in blocks(len(origin), size)
    ]
    check_classes(parts[0][0].shape[1])
    slope, intercept, radius, undecided = (torch.cat([p[i] for p in parts]) for i in range(4))
    kind, limit = limits_of(slope, intercept, undecided)
    last = None
    if last_region:
        last = _assumptions(torch.cat([p[4] for p in parts]), slope, intercept, origin)
    return FarField(
        slope=slope, intercept=intercept, radius=radius, limit=limit, kind=kind, last_region=last
    )


def _block(
    instance: Instance, origin: Tensor, direction: Tensor, last_region: bool
) -> tuple[Tensor, ...]:
    domain = Infinity(len(origin))
    way = direction.clone().requires_grad_() if last_region else direction
    with torch.set_grad_enabled(last_region):
        out = instance.run(domain, domain.start(origin, way))
        slope, intercept = out.coefs
        gap = torch.sort(slope.detach(), dim=1, descending=True).values
        close = (gap[:, :1] - gap) <= 2 * out.error[0][:, None]
        undecided = domain.undecided | (close & (gap != gap[:, :1])).any(1)
        found = [slope.detach(), intercept.detach(), domain.radius, undecided]
        if last_region:
            rows = [
                torch.autograd.grad(slope[:, c].sum(), way, retain_graph=True)[0].flatten(1)
                for c in range(slope.shape[1])
            ]
            found.append(torch.stack(rows, 1))
    return tuple(found)


def limits_of(slope: Tensor, intercept: Tensor, undecided: Tensor) -> tuple[Any, Tensor]:
    """Kinds and limit probabilities `(N, C)` of affine logits."""
    top = slope == slope.amax(-1, keepdim=True)
    limit = torch.where(top, intercept, -torch.inf).softmax(-1)
    kind = np.where(top.sum(-1).numpy() == 1, KINDS[0], KINDS[1]).astype("<U9")
    kind[(slope == 0).all(-1).numpy()] = KINDS[2]
    kind[undecided.numpy()] = KINDS[3]
    return kind, limit


def _assumptions(V: Tensor, slope: Tensor, intercept: Tensor, origin: Tensor) -> LastRegion:
    a = intercept - torch.einsum("ncd,nd->nc", V, origin.flatten(1))
    ordered = slope.sort(dim=1).values
    return LastRegion(
        V=V,
        a=a,
        zero_entries=(V == 0).flatten(1).any(1),
        duplicate_slopes=(ordered[:, 1:] == ordered[:, :-1]).any(1),
        tied_top=(ordered[:, -1:] == ordered[:, -2:-1]).any(1),
    )
