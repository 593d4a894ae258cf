"""Infinitely far away: the answer of a network at the end of a ray, exactly."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import (
    Bend,
    Deferred,
    Domain,
    Function,
    Linear,
    Part,
    below_point,
    bent,
    is_relu,
    units,
)
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

BYTES = 8 << 20  # of the widest layer of one block of rays: what stays near the processor
KINDS = ("one", "tie", "constant", "undecided")
Gains = dict[Any, float]  # how much each affine layer of a network amplifies


@dataclass(frozen=True, eq=False, kw_only=True)
class LastRegion:
    """The affine map on the last region of each ray, and what the papers assume about it.

    V, a: the affine map, `(N, C, D)` and `(N, C)`; of a model with M members `(M, ...)`.
    zero_entries: whether an entry of V is exactly 0, `(N,)`.
    duplicate_slopes: whether two classes grow equally fast along the ray, `(N,)`.
    tied_top: whether two classes grow fastest, `(N,)`.
    """

    V: Tensor
    a: Tensor
    zero_entries: Tensor
    duplicate_slopes: Tensor
    tied_top: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class FarField:
    """Logits beyond the last breakpoint of each ray: `slope * t + intercept` for t >= radius.

    Of a bare network the shapes are as below; of a model with M members `(M, ...)`.

    slope, intercept: of the logits, `(N, C)`.
    radius: the last breakpoint in units of the direction, `(N,)`; 0 if there is none.
    limit: class probabilities as t grows without end, `(N, C)`.
    kind: `"one"`, `"tie"`, `"constant"` or `"undecided"`, `(N,)`.
    last_region: the affine map of the last region; None unless it was asked for.
    """

    slope: Tensor
    intercept: Tensor
    radius: Tensor
    limit: Tensor
    kind: Any
    last_region: LastRegion | None = None

    @property
    def confidence(self) -> Tensor:
        """The largest limit probability."""
        return self.limit.amax(-1)

    def logits(self, t: Any) -> Tensor:
        """The logits at factors `t >= radius`, a number or `(N,)`."""
        t = torch.as_tensor(t, dtype=torch.float64)
        if t.ndim and t.shape != self.radius.shape[-t.ndim :]:
            raise NescioError(f"factors {tuple(t.shape)} for radii {tuple(self.radius.shape)}")
        if not (t >= self.radius * (1 - 1e-12)).all():
            raise NescioError("a factor below the radius of its ray; geometry.ray follows it there")
        logits: Tensor = self.slope * t[..., None] + self.intercept
        return logits


def through_origin(x: Any) -> tuple[Tensor, Tensor]:
    """The rays `t * x` through the inputs `x`: their origins and directions."""
    points = as_points(x, "x")
    return torch.zeros_like(points), points


def along_axis(x: Any, feature: int) -> tuple[Tensor, Tensor]:
    """The rays that scale one feature of the inputs: at t = 1 they pass the input itself.

    A sample whose feature is 0 does not move; its ray has no direction.

    x: inputs, `(N, *features)`.
    feature: index of the feature among those of a flattened input.
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

    The result is exact up to float64 rounding; kind is `"undecided"` where rounding could matter.

    source: a network, a model or a predictor; each member is analyzed by itself.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    last_region: whether to give also the affine map of the last region, by one backward pass per
      class.
    exact: whether to compute in fractions, for networks of a few thousand weights; nothing is
      undecided then.
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
    trial = trial_of(instance, origin[:1], direction[:1])
    size = max(1, BYTES // (16 * max(1, trial.widest)))
    parts = [
        _block(instance, origin[rows], direction[rows], last_region, trial.gains)
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
    instance: Instance, origin: Tensor, direction: Tensor, last_region: bool, gains: Gains
) -> tuple[Tensor, ...]:
    domain = Infinity(len(origin), gains)
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


EPSILON = 2.0**-53
CHECKED = 1000  # sums that came out as 0 and are added up again, in one layer of one block
SPLIT = 2.0**27 + 1
TINY = 1e-300  # in place of a difference of slopes that is 0


class Asymptotes(Domain):
    """Rows are rays, seen from infinity; coefs are `(2, R, *features)`: slopes p and intercepts q.

    One pass decides every unit for good: by the sign of p, and where p is exactly 0 by that of q.
    The last root of all units is the last breakpoint of the ray. Errors are bounds `(2, R)` on what
    rounding can have done to p and q: a p that is not 0 but within its bound is undecided.
    """

    def __init__(self, rays: int, gains: Gains | None = None) -> None:
        super().__init__()
        self.maps = 0  # affine layers so far
        self.gains: Gains = {} if gains is None else gains
        self.radius = torch.zeros(rays, dtype=torch.float64)
        self.undecided = torch.zeros(rays, dtype=torch.bool)

    def start(self, origin: Tensor, direction: Tensor) -> Part:
        coefs = torch.stack([direction, origin])
        return self.made(Part(coefs, error=torch.zeros(2, len(origin), dtype=coefs.dtype)))

    def map(self, part: Part, linear: Linear) -> Part:
        out = super().map(part, linear).coefs
        if linear.is_choice:
            return Part(out, error=part.error)
        if linear.terms > 1:
            self.undecided |= _canceled(part.coefs[0], out[0], linear)
        gain, size = self._gain(part, linear), _size(part.coefs)
        bound = gain * (part.error + (linear.terms + 2) * EPSILON * size)
        if linear.constant is not None:
            largest = float(torch.as_tensor(linear.constant).abs().max())
            bound = bound + EPSILON * (largest + gain * size)
        return Part(out, error=bound)

    def _gain(self, part: Part, linear: Linear) -> float:
        """The largest output for inputs of at most 1; known for a network that ran before."""
        self.maps += 1
        layer = self.maps, part.features, linear.terms
        if layer not in self.gains:
            ones = torch.ones(1, *part.features, dtype=part.coefs.dtype)
            self.gains[layer] = float(linear.magnitudes(ones).amax())
        return self.gains[layer]

    def add(self, first: Part, second: Part) -> Part:
        out = super().add(first, second).coefs
        return Part(out, error=first.error + second.error + EPSILON * _size(out))

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        return Part(super().join(parts, dim).coefs, error=_worst(parts))

    def bend(self, part: Part, bend: Bend) -> Part:
        sides = []
        for point in bend.points:
            line = units(below_point(part.coefs, point))
            sides.append(self.above(line, part.error).reshape(-1, *part.features))
        if is_relu(bend):
            return Part(torch.where(sides[0], part.coefs, 0.0), error=part.error)
        steepest = max(float(torch.as_tensor(s).abs().max()) for s in bend.slopes)
        bound = part.error * max(1.0, steepest) + EPSILON * _size(part.coefs)
        return self.made(Part(bent(part.coefs, sides, bend), error=bound))

    def largest(self, parts: Sequence[Part]) -> Part:
        """The winner for large t."""
        bound = _worst(parts)
        lines = [_packed(part.coefs) for part in parts]
        best = _first_winner(lines) if any(one.requires_grad for one in lines) else _winner(lines)
        last, level = _rivals(best, lines, 2 * bound)
        if int(level.amax()) > 1:  # others than the winner
            self.undecided |= _close(best, lines, 2 * bound, level)
        torch.maximum(self.radius, last.reshape(len(last), -1).amax(1), out=self.radius)
        return self.made(Part(best, error=bound))

    def above(self, lines: Tensor, error: Any = None) -> Tensor:
        """Active for large t; keeps the last root and what rounding leaves open."""
        p, q = lines.detach()
        near = p.abs() <= (0.0 if error is None else error[0][:, None])
        roots = q / p
        active: Tensor = p > 0
        if near.any():
            level = p == 0
            roots = torch.where(level, 0.0, roots)
            active |= level & (q > 0)
            if error is not None:
                doubtful = near & ~level
                doubtful |= level & (q != 0) & (q.abs() <= error[1][:, None])
                self.undecided |= doubtful.any(1)
        torch.maximum(self.radius, 0.0 - roots.amin(1), out=self.radius)
        return active


class Infinity(Deferred, Asymptotes):
    """The far ends of rays, with ReLUs that wait for the pool that follows them."""


def widest_layer(instance: Instance, origin: Tensor, direction: Tensor) -> int:
    """The features of a network's widest layer, by a pass with one ray `(1, *features)`."""
    return trial_of(instance, origin, direction).widest


def trial_of(instance: Instance, origin: Tensor, direction: Tensor) -> Infinity:
    """A pass with one ray, which shows how wide the layers are and how much they amplify."""
    trial = Infinity(1)
    instance.run(trial, trial.start(origin, direction))
    return trial


@torch.no_grad()
def _canceled(p: Tensor, out: Tensor, linear: Linear) -> Tensor:
    """Rows with a slope that may be 0 only because its sum, not all of zeros, was rounded."""
    doubtful = torch.zeros(len(out), dtype=torch.bool)
    zero = out == 0
    if not _any(zero):
        return doubtful
    zero &= linear.reached(p != 0)
    if not _any(zero):
        return doubtful
    places = zero.reshape(len(out), -1).nonzero().tolist()
    weights: dict[int, Tensor] = {}
    for row, unit in places[:CHECKED]:  # added up again, without rounding
        if unit not in weights:
            weights[unit] = _weights(linear.function, p.shape[1:], unit)
        doubtful[row] |= fsum(_products(weights[unit], p[row].flatten())) != 0
    for row, _ in places[CHECKED:]:
        doubtful[row] = True
    return doubtful


def _weights(function: Function, features: Sequence[int], unit: int) -> Tensor:
    """The weights of one output of a linear function."""
    with torch.enable_grad():
        x = torch.zeros(1, *features, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(function(x).flatten()[unit], x)[0].flatten()


def _products(a: Tensor, b: Tensor) -> list[float]:
    """Numbers whose exact sum is that of the products (Dekker, 1971)."""
    whole = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    rest = a_low * b_low - (((whole - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return [*whole.tolist(), *rest.tolist()]


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    high = x * SPLIT
    high = high - (high - x)
    return high, x - high


def _packed(coefs: Tensor) -> Tensor:
    """A window as numbers side by side, which are many times faster to read; a constant stays."""
    return coefs if not any(coefs.stride()) else coefs.contiguous()


def _winner(lines: Sequence[Tensor]) -> Tensor:
    """The line that is the largest for large t: of the largest slope, then intercept."""
    best = torch.empty(lines[-1].shape, dtype=lines[-1].dtype)
    p, q = best
    p.copy_(lines[0][0])
    for slope, _ in lines[1:]:
        torch.maximum(p, slope, out=p)
    lowest = torch.full((), -torch.inf, dtype=p.dtype)
    q.copy_(lowest)
    for slope, intercept in lines:
        torch.maximum(q, torch.where(slope == p, intercept, lowest), out=q)
    return best


def _first_winner(lines: Sequence[Tensor]) -> Tensor:
    """The same line; of equal ones the first, whose gradient it is."""
    p, q = lines[0]
    for slope, intercept in lines[1:]:
        higher = (slope > p) | ((slope == p) & (intercept > q))
        p, q = torch.where(higher, slope, p), torch.where(higher, intercept, q)
    return torch.stack([p, q])


@torch.no_grad()
def _rivals(best: Tensor, lines: Sequence[Tensor], bound: Tensor) -> tuple[Tensor, Tensor]:
    """When each winner took over for good, and how many lines have its slope, or nearly."""
    p, q = best
    near = _by_row(bound[0], p)
    last, level = torch.zeros_like(p), torch.zeros(p.shape, dtype=torch.uint8)
    for slope, intercept in lines:
        gap, behind = p - slope, intercept - q
        level += (gap <= near).view(torch.uint8)
        torch.maximum(last, behind.div_(gap.clamp_min_(TINY)), out=last)
    return last, level


@torch.no_grad()
def _close(best: Tensor, lines: Sequence[Tensor], bound: Tensor, level: Tensor) -> Tensor:
    """Rows with a window whose winner rounding leaves open: nearly of equal slope or intercept."""
    p, q = best
    steep, flat = (_by_row(b, p) for b in bound)
    doubtful = torch.zeros(p.shape, dtype=torch.bool)
    ties = torch.zeros_like(level)
    for slope, intercept in lines:
        tie, ahead = slope == p, q - intercept
        ties += tie.view(torch.uint8)
        doubtful |= tie.logical_and_(ahead != 0).logical_and_(ahead <= flat)
    if not torch.equal(ties, level):
        for slope, _ in lines:
            rise = p - slope
            doubtful |= (rise != 0) & (rise <= steep)
    return doubtful.reshape(len(p), -1).any(1)


def _any(flags: Tensor) -> bool:
    """Whether any is true, several times as fast as `any`."""
    return bool(flags.view(torch.uint8).amax())


def _by_row(numbers: Tensor, like: Tensor) -> Tensor:
    """One number per row `(R,)`, to broadcast against `(R, *features)`."""
    return numbers.reshape(-1, *(1 for _ in like.shape[1:]))


def _worst(parts: Sequence[Part]) -> Tensor:
    return torch.stack([part.error for part in parts]).amax(0)


def _size(coefs: Tensor) -> Tensor:
    """Largest magnitude in each row, `(K, R)`."""
    low, high = torch.aminmax(units(coefs.detach()), dim=2)
    return torch.maximum(-low, high)
