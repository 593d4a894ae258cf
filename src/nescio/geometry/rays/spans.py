"""Rows are spans of rays: every unit is a line plus or minus an error that holds all along a span.

A unit that does not bend on a span stays a line. One that does is replaced by the chord of its
activation, and its distance from the chord goes into the error. So three passes bound a network on
a whole span, and the error falls with the square of the span.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nescio.geometry.rays.at_infinity import EPSILON
from nescio.geometry.tracing.deferred import Deferred, Waiting, is_relu
from nescio.geometry.tracing.domain import Bend, Domain, Function, Part, bent


class Chords(Domain):
    """Spans `[lo, hi]` of the rays `origin + t * direction`.

    Coefs are `(2, R, *features)` in the place s on the span, from -1 at lo to 1 at hi. Errors are
    `(R, *features)`; they allow for the rounding of the coefs too.
    """

    def __init__(self, lo: Tensor, hi: Tensor) -> None:
        super().__init__()
        self.half, self.middle = (hi - lo) / 2, (lo + hi) / 2
        self.unstable = torch.zeros(len(lo), dtype=torch.long)  # units that bend on each span

    def start(self, origin: Tensor, direction: Tensor) -> Part:
        shape = (-1, *(1 for _ in origin.shape[1:]))
        center = torch.addcmul(origin, direction, self.middle.reshape(shape))
        coefs = torch.stack([direction * self.half.reshape(shape), center])
        return self.made(Part(coefs, error=2 * EPSILON * (origin.abs() + center.abs())))

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        """The sign in the middle of the span."""
        return lines[1] > 0

    def map(
        self,
        part: Part,
        function: Function,
        *,
        absolute: Function | None = None,
        terms: int = 1,
        constant: Tensor | float | None = None,
    ) -> Part:
        out = super().map(part, function, constant=constant)
        if absolute is None and terms == 1 and constant is None:
            return Part(out.coefs, error=function(part.error))
        slope, center = part.coefs
        rounding = (terms + 2) * EPSILON
        error = torch.add(part.error, slope.abs(), alpha=rounding)
        error = (absolute or function)(error.add_(center.abs(), alpha=rounding))
        if constant is not None:
            error = torch.add(error, out.coefs[1].abs(), alpha=2 * EPSILON)
        return Part(out.coefs, error=error)

    def add(self, first: Part, second: Part) -> Part:
        out = super().add(first, second)
        error = first.error + second.error
        for coefs in out.coefs:
            error = error.add_(coefs.abs(), alpha=EPSILON)
        return Part(out.coefs, error=error)

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        out = super().join(parts, dim)
        return Part(out.coefs, error=torch.cat([p.error for p in parts], dim))

    def bend(self, part: Part, bend: Bend) -> Part:
        slope, center = part.coefs
        reach = slope.abs() + part.error
        self.units.append(reach[0].numel() * len(bend.points))
        if is_relu(bend):
            return self._relu(part, reach)
        low, high = center - reach, center + reach
        points = [torch.as_tensor(point, dtype=torch.float64) for point in bend.points]
        inside = [(low < point) & (high > point) for point in points]
        bends = torch.stack(inside).any(0)
        self.unstable += bends.reshape(len(bends), -1).sum(1)
        ends = [_value(x, bend, points) for x in (low, high)]
        steep = (ends[1] - ends[0]) / (high - low)
        top = torch.zeros_like(steep)
        bottom = torch.zeros_like(steep)
        for point, crossed in zip(points, inside, strict=True):
            value = _value(point.expand(low.shape), bend, points)
            away = torch.where(crossed, value - ends[0] - steep * (point - low), 0.0)
            top, bottom = torch.maximum(top, away), torch.minimum(bottom, away)
        sides = [center > point for point in points]
        exact = bent(part.coefs, sides, bend)
        middle = ends[0] + steep * reach + (top + bottom) / 2
        chord = torch.stack([steep * slope, middle])
        gain = torch.stack([torch.as_tensor(s).abs().amax() for s in bend.slopes]).amax()
        error = torch.where(bends, steep.abs() * part.error + (top - bottom) / 2, gain * part.error)
        rounding = 8 * EPSILON * (middle.abs() + ends[0].abs() + ends[1].abs())
        coefs = torch.where(bends, chord, exact)
        return self.made(Part(coefs, error=error + torch.where(bends, rounding, EPSILON * reach)))

    def _relu(self, part: Part, reach: Tensor) -> Part:
        """The chord of a ReLU from -a to b is `b / (a + b)` steep and at most ab / (a + b) off."""
        center = part.coefs[1]
        share = torch.div(center + reach, reach * 2)  # of the span's range that is above 0
        share = share.clamp_(0.0, 1.0)
        whole = reach == 0
        if whole.any():
            share = torch.where(whole, (center > 0).double(), share)
        bends = (share > 0) & (share < 1)
        self.unstable += bends.reshape(len(bends), -1).sum(1)
        off = share * (1 - share) * reach  # half of the largest distance from the chord
        coefs = part.coefs * share
        coefs[1] += off
        error = torch.addcmul(off.mul_(1 + 16 * EPSILON), share, part.error)
        return self.made(Part(coefs, error=error.add_(reach * bends, alpha=8 * EPSILON)))

    def largest(self, parts: Sequence[Part]) -> Part:
        """The largest at the middle of the span, and how far another can rise above it."""
        return self.winner(parts, floor=-torch.inf)

    def winner(self, parts: Sequence[Part], *, floor: float) -> Part:
        """The largest; what stays below the floor is not counted as unstable."""
        self.units.append(parts[0].coefs[0, 0].numel() * len(parts) * (len(parts) - 1) // 2)
        slope, center = parts[0].coefs
        error = parts[0].error
        for part in parts[1:]:
            higher = part.coefs[1] > center
            slope = torch.where(higher, part.coefs[0], slope)
            center = torch.where(higher, part.coefs[1], center)
            error = torch.where(higher, part.error, error)
        above = torch.zeros_like(center)
        for part in parts:
            rise = (part.coefs[1] - center) + (part.coefs[0] - slope).abs_()
            above = torch.maximum(above, rise.add_(part.error).sub_(error))
        changes = (above > 0) & (center + slope.abs() + error + above > floor)
        self.unstable += changes.reshape(len(changes), -1).sum(1)
        coefs = torch.stack([slope, center + above / 2])
        rounding = EPSILON * (center.abs() + slope.abs())
        return self.made(Part(coefs, error=error + above / 2 + 4 * rounding))


class Spans(Deferred, Chords):
    """Spans whose ReLUs wait for the pool that follows them."""

    def largest_waiting(self, parts: Sequence[Part]) -> Part:
        best = self.winner(parts, floor=0.0)
        return Part(best.coefs, best.version, Waiting(best.error))


def _value(z: Tensor, bend: Bend, points: Sequence[Tensor]) -> Tensor:
    """The activation itself, at points."""
    return bent(z[None], [z > point for point in points], bend)[0]
