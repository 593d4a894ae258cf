"""The raw outputs of a network at the end of a ray, exactly, whatever its head makes of them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.geometry.rays.far_field import BYTES, Gains, Infinity, trial_of
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_rays,
    blocks,
    instances,
    with_members,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FarOutputs:
    """Outputs beyond the last breakpoint of each ray: `slope * t + intercept` for t >= radius."""

    slope: Tensor  # (M, N, O) of each member
    intercept: Tensor  # (M, N, O)
    radius: Tensor  # (M, N) the last breakpoint in units of the direction; 0 if there is none
    undecided: Tensor  # (M, N) whether rounding leaves open which linear region is the last
    error: Tensor  # (M, N) a bound on what rounding did to the slopes

    @property
    def sign(self) -> Tensor:
        """Of each slope, -1, 0 or 1; NaN where rounding leaves it open, `(M, N, O)`."""
        slope, bound = self.slope, self.error[..., None]
        open_ = self.undecided[..., None] | ((slope != 0) & (slope.abs() <= bound))
        return slope.sign().masked_fill(open_, torch.nan)


@torch.no_grad()
def far_outputs(source: Source, origin: Any, direction: Any) -> FarOutputs:
    """The exact outputs of each member beyond the last breakpoint of `origin + t * direction`.

    For networks whose outputs are no class logits: means and spreads, or concentrations. A head
    that applies softplus to an output then has a limit, or grows, by the sign of its slope.

    source: a network, a model or a predictor of nescio. Exact up to float64 rounding, as
    `far_field`.
    """
    start, way = as_rays(origin, direction)
    members = [_of(instance, start, way) for instance in instances(source, raw=True)]
    return with_members(members)


def _of(instance: Instance, origin: Tensor, direction: Tensor) -> FarOutputs:
    trial = trial_of(instance, origin[:1], direction[:1])
    size = BYTES // (16 * max(1, trial.widest))
    found = [
        _block(instance, origin[rows], direction[rows], trial.gains)
        for rows in blocks(len(origin), size)
    ]
    slope, intercept, radius, undecided, error = (
        torch.cat(part) for part in zip(*found, strict=True)
    )
    return FarOutputs(
        slope=slope, intercept=intercept, radius=radius, undecided=undecided, error=error
    )


def _block(
    instance: Instance, origin: Tensor, direction: Tensor, gains: Gains
) -> tuple[Tensor, ...]:
    domain = Infinity(len(origin), gains)
    out = instance.run(domain, domain.start(origin, direction))
    slope, intercept = out.coefs
    return slope, intercept, domain.radius, domain.undecided, out.error[0]
