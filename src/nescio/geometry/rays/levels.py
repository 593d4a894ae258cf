"""Where affine logits first give a class a level of confidence, exactly.

The log odds against a class, `G(t) = logsumexp(z_j(t) - z_k(t))` over the other classes, are convex
where the logits are affine in t. Newton's method from the left never passes over a root of a convex
function. A mixture is not convex: there the steps are those of a bound on its second derivative.
All is in odds and in 1 - confidence, which do not round to 0 as probabilities round to 1.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nescio.geometry.rays.far_field import EPSILON
from nescio.geometry.tracing.domain import (
    Bend,
    Deferred,
    Domain,
    Linear,
    Part,
    Waiting,
    bent,
    is_relu,
)
from nescio.geometry.tracing.instances import blocks

FAR = 1e150  # factors are not followed beyond
PAIRS = 1 << 21  # numbers in one block of rows x members x classes
TINY = 2.0**-52
BEND = 0.0963  # the second derivative of a sigmoid is not below minus this
ROUNDS = 400


def first_reach(
    slope: Tensor,
    intercept: Tensor,
    lo: Tensor,
    hi: Tensor,
    confidence: float,
    error: Tensor | None = None,
) -> Tensor:
    """The smallest t in `[lo, hi]` at which a class has the confidence, infinite where none has.

    slope, intercept: (S, M, C) affine logits of the members of a mixture. error: (S, M, C) how far
    the logits may be off; the answer is then the smallest t at which a class may have it.
    """
    row, label = _candidates(slope, intercept, lo, hi, confidence, error)
    found = torch.full_like(lo, torch.inf)
    for part in blocks(len(row), max(1, PAIRS // slope.shape[1:].numel())):
        r, k = row[part], label[part, None, None].expand(-1, slope.shape[1], 1)
        gain, lead = slope[r], intercept[r]
        gain, lead = gain - gain.gather(2, k), lead - lead.gather(2, k)
        if error is not None:
            lead = lead - error[r] - error[r].gather(2, k)
        lead.scatter_(2, k, -torch.inf)
        if slope.shape[1] == 1:
            roots = _newton(gain[:, 0], lead[:, 0], lo[r], hi[r], confidence)
        else:
            roots = _bounded_steps(gain, lead, lo[r], hi[r], confidence)
        found = found.scatter_reduce(0, r, roots, "amin")
    return found


def _candidates(
    slope: Tensor,
    intercept: Tensor,
    lo: Tensor,
    hi: Tensor,
    confidence: float,
    error: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Rows and classes for which the best of the other classes does not rule the level out."""
    endless = hi.isinf()
    first = torch.addcmul(intercept, slope, lo[:, None, None])
    last = torch.addcmul(intercept, slope, torch.where(endless, 0.0, hi)[:, None, None])
    if endless.any():
        away = torch.where(slope == 0, intercept, slope * torch.inf)
        last = torch.where(endless[:, None, None], away, last)
    high, low = torch.maximum(first, last), torch.minimum(first, last)
    if error is not None:
        high, low = high + error, low - error
    top = low.topk(2, dim=2)
    other = top.values[..., :1].expand_as(low).scatter(2, top.indices[..., :1], top.values[..., 1:])
    slack = 1e-12 * (1 + first.abs() + other.abs().nan_to_num(posinf=0.0))
    against = (other - high - slack).sigmoid().mean(1)
    row, label = (against <= (1 - confidence) * (1 + 1e-9)).nonzero(as_tuple=True)
    return row, label


def _newton(gain: Tensor, lead: Tensor, lo: Tensor, hi: Tensor, confidence: float) -> Tensor:
    """The smallest t in `[lo, hi]` at which one network's log odds are those of the confidence."""
    odds = math.log(confidence) - math.log1p(-confidence)
    answer = torch.full_like(lo, torch.inf)
    place, t = torch.arange(len(lo)), lo
    for _ in range(ROUNDS):
        if not len(place):
            break
        against, steep = _log_odds(gain, lead, t)
        value = against + odds
        there = value <= 0
        answer[place[there]] = t[there]
        onward = t - value / steep
        on = ~there & (steep < 0) & (onward <= hi) & (onward < FAR)
        still = on & (onward - t <= TINY * t.abs())
        answer[place[still]] = onward[still]
        on &= ~still
        place, t, gain, lead, hi = place[on], onward[on], gain[on], lead[on], hi[on]
    answer[place] = t
    return answer


def _log_odds(gain: Tensor, lead: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """`logsumexp(gain * t + lead)` over the last axis, and its derivative."""
    lines = torch.addcmul(lead, gain, t.reshape(-1, *(1 for _ in gain.shape[1:])))
    top = lines.amax(-1, keepdim=True)
    weight = (lines - top).exp_()
    total = weight.sum(-1)
    return top[..., 0] + total.log(), (weight * gain).sum(-1) / total


def _bounded_steps(gain: Tensor, lead: Tensor, lo: Tensor, hi: Tensor, confidence: float) -> Tensor:
    """The smallest t in `[lo, hi]` at which a mixture has the confidence.

    A step stops short of where the mean probability of the other classes can first be low enough:
    by tangents to every member's log odds, or by a parabola under it.
    """
    rest = 1 - confidence
    answer = torch.full_like(lo, torch.inf)
    place, t = torch.arange(len(lo)), lo
    width = torch.where(hi.isinf(), 1 + lo.abs(), hi - lo)
    odds, steep = _log_odds(gain, lead, t)
    growth = gain.masked_fill(lead == -torch.inf, -torch.inf).amax(2)  # of the odds, far away
    line = lead.masked_fill(gain < growth[..., None], -torch.inf).logsumexp(2)
    while len(place):
        wrong = odds.sigmoid()
        excess = wrong.mean(1) - rest
        there = excess <= 0
        answer[place[there]] = t[there]
        width = torch.minimum(width, hi - t)
        end = torch.where(width < hi - t, t + width, hi)
        odds_end, steep_end = _log_odds(gain, lead, end)
        under = _under(odds, steep, odds_end, steep_end, width).sigmoid().mean(1)
        slope = (wrong * (1 - wrong) * steep).mean(1)
        steepest = torch.maximum(steep.square(), steep_end.square())
        concave = BEND * torch.where((odds > 0) | (odds_end > 0), steepest, 0.0).mean(1)
        reach = 2 * excess / ((slope.square() + 2 * concave * excess).sqrt() - slope).clamp(min=0)
        whole = (under > rest) | (reach >= width)
        step = torch.where(whole, width, reach)
        still = ~there & ~whole & (step <= TINY * t.abs())
        answer[place[still]] = t[still]
        onward = torch.where(whole, end, t + step)
        on = ~there & ~still & (onward < FAR) & ~(whole & (end >= hi))
        on &= hi.isfinite() | (_ever_under(odds, steep, growth, line, t).sigmoid().mean(1) <= rest)
        width = torch.where(whole, 2 * width, 2 * step)
        gone = whole[on]
        place, t, hi, width = place[on], onward[on], hi[on], width[on]
        gain, lead, growth, line = gain[on], lead[on], growth[on], line[on]
        odds, steep = odds_end[on], steep_end[on]
        if not gone.all():
            short = ~gone
            odds[short], steep[short] = _log_odds(gain[short], lead[short], t[short])
    return answer


def _under(low: Tensor, falls: Tensor, high: Tensor, rises: Tensor, width: Tensor) -> Tensor:
    """A lower bound on convex functions over an interval, from value and slope at both ends."""
    apart = (rises - falls).clamp(min=1e-300)
    meet = (low - high + rises * width[:, None]) / apart  # where the tangents meet, from the left
    inside = low + falls * torch.minimum(meet.clamp(min=0), width[:, None])
    return torch.where(falls >= 0, low, torch.where(rises <= 0, high, inside))


def _ever_under(odds: Tensor, steep: Tensor, growth: Tensor, line: Tensor, t: Tensor) -> Tensor:
    """A lower bound on log odds from t on: by the tangent at t and the line they end as."""
    ahead = torch.addcmul(line, growth, t[:, None])  # of that line, at t
    meet = ((odds - ahead) / (growth - steep).clamp(min=1e-300)).clamp(min=0)
    lowest = torch.where(
        growth < 0, -torch.inf, torch.where(growth > 0, odds + steep * meet, ahead)
    )
    return torch.where(steep >= 0, odds, lowest)


class Chords(Domain):
    """Rows are spans `[lo, hi]` of the rays `origin + t * direction`.

    A unit that does not bend on a span stays a line. One that does is replaced by the chord of its
    activation, and its distance from the chord goes into the error. So three passes bound a network
    on a whole span, and the error falls with the square of the span.

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

    def map(self, part: Part, linear: Linear) -> Part:
        out = super().map(part, linear)
        if linear.is_choice:
            return Part(out.coefs, error=linear.function(part.error))
        slope, center = part.coefs
        rounding = (linear.terms + 2) * EPSILON
        error = torch.add(part.error, slope.abs(), alpha=rounding)
        error = linear.magnitudes(error.add_(center.abs(), alpha=rounding))
        if linear.constant is not None:
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
