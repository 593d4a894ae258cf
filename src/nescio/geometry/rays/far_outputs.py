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
    """Outputs beyond the last breakpoint of each ray: `slope * t + intercept` for t >= radius.

    slope, intercept: of the outputs of each member, `(M, N, O)`.
    radius: the last breakpoint in units of the direction, `(M, N)`; 0 if there is none.
    undecided: whether rounding leaves open which linear region is the last, `(M, N)`.
    error: a bound on what rounding did to the slopes, `(M, N)`.
    """

    slope: Tensor
    intercept: Tensor
    radius: Tensor
    undecided: Tensor
    error: Tensor

    @property
    def sign(self) -> Tensor:
        """The sign of each slope, -1, 0 or 1; NaN where rounding leaves it open, `(M, N, O)`."""
        slope, bound = self.slope, self.error[..., None]
        open_ = self.undecided[..., None] | ((slope != 0) & (slope.abs() <= bound))
        return slope.sign().masked_fill(open_, torch.nan)


@torch.no_grad()
def far_outputs(source: Source, origin: Any, direction: Any) -> FarOutputs:
    """The exact outputs of each member beyond the last breakpoint of `origin + t * direction`.

    For networks whose outputs are not class logits: means and spreads, or concentrations. A head
    that applies softplus to an output then has a limit, or grows, by the sign of its slope. Exact
    up to float64 rounding, as `far_field`.

    source: a network, a model or a predictor; each member is analyzed by itself.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
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
