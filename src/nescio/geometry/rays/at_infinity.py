"""Rows are rays, seen from infinity: a unit is `p * t + q`, and its sign is that for large t.

One pass decides every unit for good: by the sign of p, and where p is exactly 0 by that of q. The
last root of all units is the last breakpoint of the ray. Beside each part goes a bound on what
rounding can have done to p and q: a p that is not 0 but within its bound is undecided.
"""

from collections.abc import Sequence
from math import fsum
from typing import Any

import torch
from torch import Tensor

from nescio.geometry.tracing.deferred import Deferred, is_relu
from nescio.geometry.tracing.domain import Bend, Domain, Function, Part, below_point, bent, units
from nescio.geometry.tracing.instances import Instance

EPSILON = 2.0**-53
CHECKED = 1000  # sums that came out as 0 and are added up again, in one layer of one block
SPLIT = 2.0**27 + 1
TINY = 1e-300  # in place of a difference of slopes that is 0


class Asymptotes(Domain):
    """Coefs are `(2, R, *features)`: slopes and intercepts.

    Errors are bounds `(2, R)` on what rounding can have done to them.
    """

    def __init__(self, rays: int) -> None:
        super().__init__()
        self.radius = torch.zeros(rays, dtype=torch.float64)
        self.undecided = torch.zeros(rays, dtype=torch.bool)

    def start(self, origin: Tensor, direction: Tensor) -> Part:
        coefs = torch.stack([direction, origin])
        return self.made(Part(coefs, error=torch.zeros(2, len(origin), dtype=coefs.dtype)))

    def map(
        self,
        part: Part,
        function: Function,
        *,
        absolute: Function | None = None,
        terms: int = 1,
        constant: Tensor | float | None = None,
    ) -> Part:
        out = super().map(part, function, constant=constant).coefs
        if absolute is None and terms == 1 and constant is None:  # a choice of units
            return Part(out, error=part.error)
        if terms > 1:
            self.undecided |= _canceled(part.coefs[0], out[0], function, absolute or function)
        gain = (absolute or function)(torch.ones(1, *part.features, dtype=out.dtype)).amax()
        size = _size(part.coefs)
        bound = gain * (part.error + (terms + 2) * EPSILON * size)
        if constant is not None:
            largest = float(torch.as_tensor(constant).abs().max())
            bound = bound + EPSILON * (largest + gain * size)
        return Part(out, error=bound)

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
        lines = [part.coefs for part in parts]
        best = _winner(lines)
        last, rivals = _rivals(best, lines, 2 * bound)
        if rivals:  # equal slopes somewhere: the intercepts decide
            best = _first_winner(lines)
            last, _ = _rivals(best, lines, 2 * bound)
            self.undecided |= _close(best, lines, 2 * bound)
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
    trial = Infinity(1)
    instance.run(trial, trial.start(origin, direction))
    return trial.widest


@torch.no_grad()
def _canceled(p: Tensor, out: Tensor, function: Function, absolute: Function) -> Tensor:
    """Rows with a slope that is 0 only because its sum was rounded.

    A sum of nothing but zeros is 0. Any other sum that came out as 0 is added up again without
    rounding; beyond that number of them, the rest is left open.
    """
    doubtful = torch.zeros(len(out), dtype=torch.bool)
    if torch.count_nonzero(out) == out.numel():
        return doubtful
    zero = (out == 0).reshape(len(out), -1)
    rows = zero.any(1).nonzero()[:, 0]
    terms = absolute(p[rows].abs()).reshape(len(rows), -1) > 0
    places = (zero[rows] & terms).nonzero().tolist()
    weights: dict[int, Tensor] = {}
    for row, unit in places[:CHECKED]:
        if unit not in weights:
            weights[unit] = _weights(function, p.shape[1:], unit)
        values = p[rows[row]].flatten()
        doubtful[rows[row]] |= fsum(_products(weights[unit], values)) != 0
    for row, _ in places[CHECKED:]:
        doubtful[rows[row]] = True
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


def _winner(lines: Sequence[Tensor]) -> Tensor:
    """Slope and intercept of the line with the largest slope."""
    p, q = lines[0]
    for slope, intercept in lines[1:]:
        q = torch.where(slope > p, intercept, q)
        p = torch.maximum(p, slope)
    return torch.stack([p, q])


def _first_winner(lines: Sequence[Tensor]) -> Tensor:
    """The same where slopes are equal: by the intercept, then the first."""
    p, q = lines[0]
    for slope, intercept in lines[1:]:
        higher = (slope > p) | ((slope == p) & (intercept > q))
        p, q = torch.where(higher, slope, p), torch.where(higher, intercept, q)
    return torch.stack([p, q])


@torch.no_grad()
def _rivals(best: Tensor, lines: Sequence[Tensor], bound: Tensor) -> tuple[Tensor, bool]:
    """When each winner took over for good, and whether another has the same slope."""
    p, q = best
    near = bound[0].reshape(-1, *(1 for _ in p.shape[1:]))
    last, level = torch.zeros_like(p), 0
    for slope, intercept in lines:
        gap = p - slope
        level += int(torch.count_nonzero(gap <= near))
        took_over = (intercept - q).div_(gap.clamp_min_(TINY))
        torch.maximum(last, took_over, out=last)
    return last, level > p.numel()


@torch.no_grad()
def _close(best: Tensor, lines: Sequence[Tensor], bound: Tensor) -> Tensor:
    """Rows with a window whose winner rounding leaves open."""
    p, q = best
    steep, level = (b.reshape(-1, *(1 for _ in p.shape[1:])) for b in bound)
    doubtful = torch.zeros(p.shape, dtype=torch.bool)
    for slope, intercept in lines:
        rise, ahead = p - slope, q - intercept
        doubtful |= (rise != 0) & (rise <= steep)
        doubtful |= (rise == 0) & (ahead != 0) & (ahead <= level)
    return doubtful.reshape(len(p), -1).any(1)


def _worst(parts: Sequence[Part]) -> Tensor:
    return torch.stack([part.error for part in parts]).amax(0)


def _size(coefs: Tensor) -> Tensor:
    """Largest magnitude in each row, `(K, R)`."""
    low, high = torch.aminmax(units(coefs.detach()), dim=2)
    return torch.maximum(-low, high)
