"""Functions of Dirichlet concentrations, given by their logarithms, that lose no digits.

Differences of digamma and log-gamma functions cancel where concentrations are large, small or far
apart. Here each is a sum of terms of one sign: with a concentration a, the rest r of the total t,

    log(t / a) = rise + fall,   rise = psi(t + 1) - psi(a + 1),   fall = excess(a) - excess(t),

excess(a) = psi(a + 1) - log(a). The mean of `rise` is the expected entropy, the mean of `fall` the
mutual information, and both are above 0. All tensors are float64.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.core.densities import LOG_TWO_PI

# For large a: lgamma(a) = (a - 1/2) log(a) - a + log(2 pi) / 2 + sum of LOG_GAMMA[k] / a^(2k+1),
# digamma(a) = log(a) - 1 / (2 a) - sum of DIGAMMA[k] / a^(2k+2), and trigamma(a) = 1 / a
# + 1 / (2 a^2) + sum of TRIGAMMA[k] / a^(2k+3).
SERIES = 20.0  # from here on the series are exact to the last digit
LOG_SERIES = math.log(SERIES)
LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
MORE = {  # terms that are needed from 7 on
    "log_gamma": (*LOG_GAMMA, 1 / 156, -3617 / 122400, 43867 / 244188),
    "digamma": (*DIGAMMA, 1 / 12, -3617 / 8160, 43867 / 14364),
    "trigamma": (*TRIGAMMA, 43867 / 798),
}
SHIFT = 6  # steps of the recursion that bring a small argument to where its series holds
TINY = -700.0  # log concentrations whose reciprocal cannot be held
CLOSE = 0.02  # relative distance below which differences are integrals of the derivative
NODES = tuple(0.5 + 0.5 * s * math.sqrt(0.6) for s in (-1, 0, 1))  # of Gauss and Legendre on [0, 1]
WEIGHTS = (5 / 18, 8 / 18, 5 / 18)


def log_total(logs: Tensor) -> Tensor:
    """Log of the sum of the concentrations over the last axis, which stays, of length one."""
    top = logs.amax(-1, keepdim=True)  # logsumexp, whose checks for infinity take twice the time
    return top + (logs - top).exp().sum(-1, keepdim=True).log()


def log_rest(logs: Tensor) -> Tensor:
    """Log of the sum of all other concentrations, for each."""
    total = log_total(logs)
    top = logs.argmax(-1, keepdim=True)
    rest = total + torch.log1p(-(logs - total).exp().clamp_max(0.5))
    others = logs.scatter(-1, top, -math.inf).logsumexp(-1, keepdim=True)
    return rest.scatter(-1, top, others)


def log_shares(logs: Tensor) -> Tensor:
    """Log of each share of the total; unlike a log-softmax, exact to all digits near 1."""
    logs = logs - logs.amax(-1, keepdim=True)  # exact where they are near, so no digit is lost
    return -_softplus(log_rest(logs) - logs)


def _softplus(x: Tensor) -> Tensor:
    return x.clamp_min(0) + torch.log1p((-x.abs()).exp())  # PyTorch's drops the second term early


def gaps(logs: Tensor) -> tuple[Tensor, Tensor]:
    """`rise` and `fall` of each concentration, both 0 or more, and of full relative precision."""
    rest = log_rest(logs)
    both = _softplus(rest - logs)
    rise = _rise(logs.clamp_max(LOG_SERIES), rest, logs)
    fall = _fall(logs.clamp_min(LOG_SERIES), (rest - logs).exp(), log_total(logs))
    large = logs > LOG_SERIES
    return torch.where(large, both - fall, rise), torch.where(large, fall, both - rise)


def _rise(small: Tensor, rest: Tensor, logs: Tensor) -> Tensor:
    """psi(a + r + 1) - psi(a + 1) for a up to SERIES."""
    start = small.exp() + 1
    ratio = rest.exp() / start
    near = ratio.clamp_max(CLOSE) * start
    steps = [trigamma(start + node * near) for node in NODES]
    close = near * sum(w * step for w, step in zip(WEIGHTS, steps, strict=True))
    total = log_total(logs)
    end = torch.where(total > LOG_SERIES, total + excess(total), torch.digamma(total.exp() + 1))
    return torch.where(ratio < CLOSE, close, end - torch.digamma(start))


def _fall(large: Tensor, ratio: Tensor, total: Tensor) -> Tensor:
    """excess(a) - excess(a + r) for a from SERIES on, r being `ratio` times a."""
    near = ratio.clamp_max(CLOSE)
    steps = []
    for node in NODES:
        there = 1 + node * near
        inverse = (-large).exp() / there
        slope = inverse * (0.5 - _odd(inverse, TRIGAMMA))  # -x times the derivative of excess
        steps.append(near / there * slope)
    close = sum((w * step for w, step in zip(WEIGHTS, steps, strict=True)), torch.zeros(()))
    return torch.where(ratio < CLOSE, close, excess(large) - excess(total))


def excess(logs: Tensor) -> Tensor:
    """`digamma(a + 1) - log(a)`, about 1 / (2 a) where a is large."""
    inverse = (-logs.clamp_min(LOG_SERIES)).exp()
    far = inverse * (0.5 - _odd(inverse, DIGAMMA))
    near = logs.clamp_max(LOG_SERIES)
    return torch.where(logs > LOG_SERIES, far, torch.digamma(near.exp() + 1) - near)


def lack(logs: Tensor) -> Tensor:
    """`digamma(a) - log(a)`, below 0: about -1 / (2 a) where a is large, -1 / a where small."""
    inverse = (-logs.clamp_min(LOG_SERIES)).exp()
    far = -inverse * (0.5 + _odd(inverse, DIGAMMA))
    near = logs.clamp_max(LOG_SERIES)
    return torch.where(logs > LOG_SERIES, far, torch.digamma(near.exp()) - near)


def scaled_lack(logs: Tensor) -> Tensor:
    """a times `lack`: from -1 where a is small to -1/2 where it is large."""
    near = logs.clamp_max(LOG_SERIES)
    a = near.exp()
    direct = a * (torch.digamma(a + 1) - near) - 1
    inverse = (-logs.clamp_min(LOG_SERIES)).exp()
    return torch.where(logs > LOG_SERIES, -0.5 - _odd(inverse, DIGAMMA), direct)


def curvature(logs: Tensor) -> Tensor:
    """`a (a trigamma(a) - 1)`: from 1 where a is small to 1/2 where it is large."""
    inverse = (-logs.clamp_min(LOG_SERIES)).exp()
    a = logs.clamp_max(LOG_SERIES).exp()
    near = a.square() * trigamma(a + 1) - a + 1
    return torch.where(logs > LOG_SERIES, 0.5 + _odd(inverse, TRIGAMMA), near)


class Gammas(NamedTuple):
    """What divergences of Dirichlets and their slopes are made of, for each concentration a."""

    slow: Tensor  # lgamma(a) - a log(a) + a
    lack: Tensor  # psi(a) - log(a)
    scaled_lack: Tensor  # a times that
    rise: Tensor  # a psi'(a)
    bend: Tensor  # a (a psi'(a) - 1)


def gammas(logs: Tensor) -> Gammas:
    """All at once, in half the time, to 1e-14; for losses.

    The series are taken at a, or at a + 7 where a is small: recursions lead back from there.
    """
    large, near = logs > LOG_SERIES, logs.clamp_max(LOG_SERIES)
    a, over = near.exp(), (-near).exp()
    below = [a + step for step in range(1, SHIFT + 1)]
    inverses = [x.reciprocal() for x in below]
    x = a + (SHIFT + 1)
    inverse = torch.where(large, (-logs).exp(), x.reciprocal())
    tail, half, bent = (_odd(inverse, MORE[kind]) for kind in MORE)
    half, bent = 0.5 + half, 0.5 + bent
    excess = x.log() - inverse * half - sum(inverses) - near  # psi(a + 1) - log(a)
    rise = a * (inverse * (1 + inverse * bent) + sum(one.square() for one in inverses))
    stirling = (x - 0.5) * x.log() - x + tail + 0.5 * LOG_TWO_PI  # lgamma(a + 7)
    product = math.prod(below, start=torch.ones(()))
    slow = stirling - product.log() - near - a * near + a
    return Gammas(
        slow=torch.where(large, tail + 0.5 * (LOG_TWO_PI - logs), slow),
        lack=torch.where(large, -inverse * half, excess - over),
        scaled_lack=torch.where(large, -half, a * excess - 1),
        rise=torch.where(large, 1 + inverse * bent, rise + over),
        bend=torch.where(large, bent, a * rise - a + 1),
    )


def trigamma(a: Tensor) -> Tensor:
    """The derivative of digamma to the last digit for a from 0 on; PyTorch's has nine digits."""
    value = sum(((a + step).square().reciprocal() for step in range(SHIFT)), torch.zeros_like(a))
    inverse = (a + SHIFT).reciprocal()
    return value + inverse * (1 + inverse * (0.5 + _odd(inverse, TRIGAMMA)))


def _odd(inverse: Tensor, weights: tuple[float, ...]) -> Tensor:
    """The sum of `weights[k] * inverse ** (2 k + 1)`."""
    square = inverse.square()
    value = torch.zeros_like(inverse)
    for weight in reversed(weights):
        value = value * square + weight
    return value * inverse


def differential_entropy(logs: Tensor) -> Tensor:
    """Differential entropy of Dirichlets, without the last axis; at most that of the flat one."""
    # The concentrations, which cancel, are taken out of each term: no digit is lost at 1e12.
    classes = logs.shape[-1]
    value = _log_gamma_less(logs, 1).sum(-1) - _log_gamma_less(log_total(logs), classes)[..., 0]
    if classes == 1:
        return torch.zeros_like(value)
    return torch.where(logs.amin(-1) < TINY, -math.inf, value)


def _log_gamma_less(logs: Tensor, shift: int) -> Tensor:
    """`lgamma(a) - (a - shift) digamma(a) + a`, by Stirling's series where `a` is large."""
    large = logs.clamp_min(LOG_SERIES)
    inverse = (-large).exp()
    tail = _odd(inverse, LOG_GAMMA) + (1 - shift * inverse) * _odd(inverse, DIGAMMA)
    far = (shift - 0.5) * large + 0.5 * LOG_TWO_PI + 0.5 * (1 - shift * inverse) + tail
    near = logs.clamp(TINY, LOG_SERIES)
    a = near.exp()
    direct = torch.lgamma(a) - (a - shift) * torch.digamma(a) + a
    return torch.where(logs > LOG_SERIES, far, direct)


def divergence(logs: Tensor, others: Tensor) -> Tensor:
    """KL divergence of Dirichlets from others, without the last axis.

    It is b0 KL(mean of b || mean of a) + the sum of _bend(a, b) - _bend(a0, b0): the parts of
    log-gamma that grow like a log(a) are in the first term, and each term is above 0.
    """
    total, shares, gap = log_total(logs), log_shares(logs), others - logs
    rise = _log_mean(shares, gap)
    own = torch.where(gap.abs().amax(-1, keepdim=True) < 1, gap - rise, log_shares(others) - shares)
    means = ((total + rise)[..., 0] + _apart(shares, own).log()).exp()
    bends = _bend(logs, gap).sum(-1) - _bend(total, rise)[..., 0]
    value = (means + bends).clamp_min(0)
    lost = (logs.amin(-1) < TINY) & (gap != 0).any(-1)
    return torch.where(lost | means.isinf(), math.inf, value)


def _log_mean(shares: Tensor, gap: Tensor) -> Tensor:
    """Log of the mean of exp(gap): of full relative precision also where it is near 0."""
    near = torch.log1p((shares.exp() * torch.expm1(gap.clamp(-1, 1))).sum(-1, keepdim=True))
    return torch.where(gap.abs().amax(-1, keepdim=True) < 1, near, log_total(shares + gap))


def categorical_divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of log probabilities, without what cancels in it."""
    return _apart(q, p - q)


def _apart(q: Tensor, gap: Tensor) -> Tensor:
    """KL(p || q) with log p = q + gap, as a sum of exp(q) phi(gap), which are all above 0."""
    small = gap.clamp(-0.1, 0.1)
    series = torch.zeros_like(small)  # phi(d) / d^2 = sum of (k + 1) d^k / (k + 2)!
    for k in range(12, -1, -1):
        series = series * small + (k + 1) / math.factorial(k + 2)
    wide = (q + gap).exp() * (gap - 1) + q.exp()
    terms = torch.where(gap.abs() < 0.1, q.exp() * small.square() * series, wide)
    return terms.sum(-1)


def _bend(logs: Tensor, gap: Tensor) -> Tensor:
    """g(b) - g(a) - (b - a) g'(a) with g(a) = lgamma(a) - a log(a) + a, which is convex.

    gap: log(b) - log(a).
    """
    ratio = torch.expm1(gap)  # (b - a) / a
    small = ratio.clamp(-CLOSE, CLOSE)
    near = torch.zeros_like(small)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        there = 1 + node * small
        bent = curvature(logs + there.log())
        near = near + weight * (1 - node) * (small / there).square() * bent
    far = _slow(logs + gap) - _slow(logs) - ratio * scaled_lack(logs)
    return torch.where(ratio.abs() < CLOSE, near, far)


def _slow(logs: Tensor) -> Tensor:
    """`lgamma(a) - a log(a) + a`, which grows only like log(a)."""
    large = logs.clamp_min(LOG_SERIES)
    far = 0.5 * LOG_TWO_PI - 0.5 * large + _odd((-large).exp(), LOG_GAMMA)
    near = logs.clamp_max(LOG_SERIES)
    a = near.exp()
    direct = torch.lgamma(a + 1) - near - a * near + a
    return torch.where(logs > LOG_SERIES, far, direct)
