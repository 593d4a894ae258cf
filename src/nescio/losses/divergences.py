"""Divergences of Dirichlets and their derivatives in the log concentrations, in closed form.

Each function takes log concentrations `(..., C)` in float64 and gives values `(...)` and slopes
`(..., C)`, which stay right where autograd of digamma functions would cancel or overflow. Log
concentrations below -20 (and in `forward` above 30) count as that, with the slope there: a network
that goes beyond is pulled back as strongly, and nothing overflows.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from nescio.core import NescioError, concentrations

Curved = tuple[Tensor, Tensor]  # a psi'(a), a (a psi'(a) - 1)
Sloped = Callable[..., tuple[Tensor, Tensor]]  # logs, and perhaps labels -> values, slopes
LOWEST, HIGHEST = -20.0, 30.0


def reverse(logs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(target)) of the Dirichlet q with these log concentrations.

    All targets have the same concentrations, each in its own order.
    """
    logs = logs.clamp_min(LOWEST)
    total = concentrations.log_total(logs)
    means = total - logs + concentrations.lack(total) - concentrations.lack(logs)  # of -log z
    one = target.reshape(-1, target.shape[-1])[:1]
    constant = torch.lgamma(one).sum() - torch.lgamma(one.sum())
    value = ((target - 1) * means).sum(-1) - concentrations.differential_entropy(logs) + constant
    shares, near, far = _curved(logs, total)
    return value, _slope(shares, near, far, target, target.sum(-1, keepdim=True))


def elbo(logs: Tensor, labels: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """psi(a0) - psi(a_y) + weight KL(q || Dir(1))."""
    logs, index = logs.clamp_min(LOWEST), labels[..., None]
    total, own = concentrations.log_total(logs), logs.gather(-1, index)
    shares, near, far = _curved(logs, total)
    value = _expected_nll(total, own) + weight * _apart_from_flat(logs)
    slope = (shares * far[0]).scatter_add(-1, index, -near[0].gather(-1, index))
    return value, slope + weight * _slope(shares, near, far, 1, logs.shape[-1])


def from_flat(logs: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(1)): minus the differential entropy of q, and a constant."""
    logs = logs.clamp_min(LOWEST)
    shares, near, far = _curved(logs, concentrations.log_total(logs))
    return _apart_from_flat(logs), _slope(shares, near, far, 1, logs.shape[-1])


def expected_nll(logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """psi(a0) - psi(a_y): the mean of -log z_y over draws z of the Dirichlet."""
    logs, index = logs.clamp_min(LOWEST), labels[..., None]
    total, own = concentrations.log_total(logs), logs.gather(-1, index)
    slope = (logs - total).exp() * concentrations.curvature(total)[0]
    slope = slope.scatter_add(-1, index, -concentrations.curvature(own)[0])
    return _expected_nll(total, own), slope


def _expected_nll(total: Tensor, own: Tensor) -> Tensor:
    gap = total - own + concentrations.lack(total) - concentrations.lack(own)
    return gap[..., 0]


def _apart_from_flat(logs: Tensor) -> Tensor:
    return -concentrations.differential_entropy(logs) - math.lgamma(logs.shape[-1])


def _curved(logs: Tensor, total: Tensor) -> tuple[Tensor, Curved, Curved]:
    """Shares of the total, and what the slopes need of each concentration and of the total."""
    near, far = concentrations.curvature(logs), concentrations.curvature(total)
    return (logs - total).exp(), near, far


def _slope(
    shares: Tensor, near: Curved, far: Curved, target: Tensor | int, whole: Tensor | int
) -> Tensor:
    """a_k (a_k - b_k) psi'(a_k) - a_k (a0 - b0) psi'(a0), without what cancels in it."""
    return near[1] - target * near[0] - shares * (far[1] - whole * far[0])


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
