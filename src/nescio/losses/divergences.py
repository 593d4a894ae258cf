"""Divergences of Dirichlets and their derivatives in the log concentrations, in closed form.

Each function takes log concentrations `(..., C)` in float64 and gives values `(...)` and slopes
`(..., C)`, which stay right where autograd of digamma functions would cancel or overflow. Log
concentrations below -20 (and in `forward` above 30) count as that, with the slope there: a network
that goes beyond is pulled back as strongly, and nothing overflows.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.core import NescioError, concentrations

Sloped = Callable[..., tuple[Tensor, Tensor]]  # logs, and perhaps labels -> values, slopes
LOWEST, HIGHEST = -20.0, 30.0


class Terms(NamedTuple):
    """What the divergences of Dirichlets are made of: of each concentration and of the total."""

    shares: Tensor
    means: Tensor  # of -log z over draws z
    near: concentrations.Gammas
    far: concentrations.Gammas


def _terms(logs: Tensor) -> Terms:
    logs = logs.clamp_min(LOWEST)
    total = concentrations.log_total(logs)
    both = concentrations.gammas(torch.cat([logs, total], -1))  # the total is one more
    near, far = (
        concentrations.Gammas(*(one[..., part] for one in both))
        for part in (slice(-1), slice(-1, None))
    )
    return Terms((logs - total).exp(), total - logs + far.lack - near.lack, near, far)


def _apart(terms: Terms, target: Tensor | int, whole: Tensor | int) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(target)) less what depends on the target alone; `whole` is the target's total.

    The slope is a_k (a_k - b_k) psi'(a_k) - a_k (a0 - b0) psi'(a0), without what cancels in it.
    """
    shares, means, near, far = terms
    each = (target * means + near.scaled_lack - near.slow).sum(-1)
    value = each - (far.scaled_lack - far.slow)[..., 0]
    return value, near.bend - target * near.rise - shares * (far.bend - whole * far.rise)


def reverse(logs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(target)) of the Dirichlet q with these log concentrations.

    All targets have the same concentrations, each in its own order.
    """
    one = target.reshape(-1, target.shape[-1])[:1]
    constant = torch.lgamma(one).sum() - torch.lgamma(one.sum())
    value, slope = _apart(_terms(logs), target, target.sum(-1, keepdim=True))
    return value + constant, slope


def elbo(logs: Tensor, labels: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """psi(a0) - psi(a_y) + weight KL(q || Dir(1))."""
    terms, index, classes = _terms(logs), labels[..., None], logs.shape[-1]
    apart, slope = _apart(terms, 1, classes)
    value = terms.means.gather(-1, index)[..., 0] + weight * (apart - math.lgamma(classes))
    rise = terms.shares * terms.far.rise
    rise = rise.scatter_add(-1, index, -terms.near.rise.gather(-1, index))
    return value, rise + weight * slope


def from_flat(logs: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(1)): minus the differential entropy of q, and a constant."""
    classes = logs.shape[-1]
    value, slope = _apart(_terms(logs), 1, classes)
    return value - math.lgamma(classes), slope


def expected_nll(logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """psi(a0) - psi(a_y): the mean of -log z_y over draws z of the Dirichlet."""
    logs, index = logs.clamp_min(LOWEST), labels[..., None]
    total, own = concentrations.log_total(logs), logs.gather(-1, index)
    both = concentrations.gammas(torch.cat([own, total], -1))
    value = (total - own)[..., 0] + both.lack[..., 1] - both.lack[..., 0]
    slope = (logs - total).exp() * both.rise[..., 1:]
    return value, slope.scatter_add(-1, index, -both.rise[..., :1])


def forward(logs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """KL(Dir(target) || q) of the Dirichlet q with these log concentrations."""
    logs = logs.clamp(LOWEST, HIGHEST)
    total, shares = concentrations.log_total(logs), concentrations.log_shares(logs)
    means = torch.digamma(target) - torch.digamma(target.sum(-1, keepdim=True))
    rises = concentrations.scaled_lack(logs) - shares.exp() * concentrations.scaled_lack(total)
    return concentrations.divergence(target.log(), logs), rises + logs.exp() * (shares - means)


def differentiable(sloped: Sloped) -> Callable[..., Tensor]:
    """The values of a function with slopes, for autograd."""

    def scored(logs: Tensor, *more: Tensor) -> Tensor:
        with torch.no_grad():
            value, slope = sloped(logs.detach().double(), *more)
        result: Tensor = _WithSlope.apply(logs, value, slope)  # type: ignore[no-untyped-call]
        return result

    return scored


class _WithSlope(torch.autograd.Function):
    """Values whose slopes are known, but not the slopes of these."""

    @staticmethod
    def forward(ctx: object, logs: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope.to(logs.dtype))  # type: ignore[attr-defined]
        return value.to(logs.dtype)

    @staticmethod
    def backward(ctx: object, grown: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():  # create_graph=True: they would count as constants
            raise NescioError(
                "the divergence of a Dirichlet has no second derivatives here; a penalty on its "
                "gradient needs another loss, such as losses.nll(heads.dirichlet())"
            )
        (slope,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grown[..., None] * slope, None, None
