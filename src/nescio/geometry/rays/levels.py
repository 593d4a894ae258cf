"""Where affine logits first give a class a level of confidence, exactly.

The log odds against a class, `G(t) = logsumexp(z_j(t) - z_k(t))` over the other classes, are convex
where the logits are affine in t. Newton's method from the left never passes over a root of a convex
function. A mixture is not convex: there the steps are those of a bound on its second derivative.
All is in odds and in 1 - confidence, which do not round to 0 as probabilities round to 1.
"""

import math

import torch
from torch import Tensor

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

    With `f` the mean probability of the other classes, each step stops short of where f can first
    fall to 1 - confidence: by tangents to every member's log odds, or by a parabola under f.
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
