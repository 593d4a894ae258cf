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

from nescio.core import concentrations

Sloped = Callable[..., tuple[Tensor, Tensor]]  # logs, and perhaps labels -> values, slopes
LOWEST, HIGHEST = -20.0, 30.0


def reverse(logs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(target)) of the Dirichlet q with these log concentrations."""
    logs = logs.clamp_min(LOWEST)
    return concentrations.divergence(logs, target.log()), _reverse_slope(logs, target)


def from_flat(logs: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q || Dir(1)): minus the differential entropy of q, and a constant."""
    logs = logs.clamp_min(LOWEST)
    value = -concentrations.differential_entropy(logs) - math.lgamma(logs.shape[-1])
    return value, _reverse_slope(logs, torch.ones_like(logs))


def _reverse_slope(logs: Tensor, target: Tensor) -> Tensor:
    """a_k (a_k - b_k) psi'(a_k) - a_k (a0 - b0) psi'(a0), without what cancels in it."""
    total = concentrations.log_total(logs)
    shares = (logs - total).exp()
    (first, second), (first0, second0) = (
        concentrations.curvature(logs),
        concentrations.curvature(total),
    )
    own = second - target * first
    return own - shares * (second0 - target.sum(-1, keepdim=True) * first0)


def forward(logs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """KL(Dir(target) || q) of the Dirichlet q with these log concentrations."""
    logs = logs.clamp(LOWEST, HIGHEST)
    total, shares = concentrations.log_total(logs), concentrations.log_shares(logs)
    means = torch.digamma(target) - torch.digamma(target.sum(-1, keepdim=True))
    rises = concentrations.scaled_lack(logs) - shares.exp() * concentrations.scaled_lack(total)
    return concentrations.divergence(target.log(), logs), rises + logs.exp() * (shares - means)


def expected_nll(logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """psi(a0) - psi(a_y): the mean of -log z_y over draws z of the Dirichlet."""
    logs, index = logs.clamp_min(LOWEST), labels[..., None]
    total, own = concentrations.log_total(logs), logs.gather(-1, index)
    value = (
        concentrations.lack(total)
        - concentrations.lack(own)
        - concentrations.log_shares(logs).gather(-1, index)
    )
    slope = (logs - total).exp() * concentrations.curvature(total)[0]
    return value[..., 0], slope.scatter_add(-1, index, -concentrations.curvature(own)[0])


def differentiable(sloped: Sloped) -> Callable[..., Tensor]:
    """The values of a function with slopes, for autograd."""

    def scored(logs: Tensor, *more: Tensor) -> Tensor:
        with torch.no_grad():
            value, slope = sloped(logs.detach().double(), *more)
        result: Tensor = _WithSlope.apply(logs, value, slope)  # type: ignore[no-untyped-call]
        return result

    return scored


class _WithSlope(torch.autograd.Function):
    """Values whose slopes are known."""

    @staticmethod
    def forward(ctx: object, logs: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope.to(logs.dtype))  # type: ignore[attr-defined]
        return value.to(logs.dtype)

    @staticmethod
    def backward(ctx: object, grown: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grown[..., None] * slope, None, None
