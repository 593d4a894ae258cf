"""How much evidence a Dirichlet network has at the end of a ray: mostly more and more.

Outputs are affine in t beyond the last breakpoint. With concentrations exp(output), the log of the
precision is the log-sum-exp of these lines, so it grows at the rate of the largest slope; with
softplus the precision itself grows at the rate of the sum of the positive slopes. Only a ray on
which every slope is 0 or below has a precision that ends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import Head, NescioError
from nescio.geometry.rays.far_outputs import FarOutputs, far_outputs
from nescio.geometry.tracing.instances import Source
from nescio.models import as_head, networks

KINDS = ("grows", "constant", "falls", "undecided")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FarPrecision:
    """The log precision of each member beyond the last breakpoint of each ray.

    outputs: slope, intercept, radius and what rounding leaves open, of the outputs.
    head: the head that reads concentrations from the outputs.
    slope: the largest slope, `(M, N)`: with exp, the rate at which the log precision grows.
    limit: limit of the log precision as t grows without end, `(M, N)`: infinite where it grows.
    kind: `"grows"`, `"constant"` (it has a limit), `"falls"` (to 0) or `"undecided"`, `(M, N)`.
    """

    outputs: FarOutputs
    head: Head
    slope: Tensor
    limit: Tensor
    kind: Any

    def __repr__(self) -> str:
        members, rays = self.slope.shape
        kinds = ((kind, float((self.kind == kind).mean())) for kind in KINDS)
        shares = ", ".join(f"{kind} on {share:.1%}" for kind, share in kinds if share)
        return f"FarPrecision({members} member(s), {rays} rays: the precision {shares})"

    @property
    def growing(self) -> float:
        """The share of rays, over all members, whose precision grows without bound."""
        return float((self.kind == KINDS[0]).mean())

    def log_precision(self, t: Any) -> Tensor:
        """The log precision `(M, N)` at factors `t` from the radius on, a number or `(N,)`."""
        at = torch.as_tensor(t, dtype=torch.float64)
        if not (at >= self.outputs.radius * (1 - 1e-12)).all():
            raise NescioError("a factor below the radius of its ray; the network itself answers")
        lines = self.outputs.slope * at[..., None] + self.outputs.intercept
        return _log_concentrations(self.head, lines).logsumexp(-1)


def far_precision(
    source: Source, origin: Any, direction: Any, *, head: Head | str | None = None
) -> FarPrecision:
    """The precision of a Dirichlet network along `origin + t * direction`, t to infinity, exactly.

    The result is exact up to float64 rounding; kind is `"undecided"` where rounding could matter.

    source: a model with a Dirichlet head, or a network with `head="dirichlet"`.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    head: how concentrations are read from the outputs; None: the head of the model.
    """
    head = networks(source)[0].head if head is None else as_head(head)
    if head.log_concentrations is None:
        raise NescioError(
            f"far_precision reads concentrations, and the {head.name} head gives none; if the "
            "outputs are log concentrations, say head='dirichlet'"
        )
    outputs = far_outputs(source, origin, direction)
    kind = _kinds(outputs, float(head.options["floor"]))
    level = torch.where(outputs.slope < 0, -torch.inf, outputs.intercept)  # what does not vanish
    limit = _log_concentrations(head, level).logsumexp(-1)
    limit = torch.where(torch.from_numpy(kind == KINDS[0]), torch.inf, limit)
    limit = torch.where(torch.from_numpy(kind == KINDS[3]), torch.nan, limit)
    return FarPrecision(
        outputs=outputs, head=head, slope=outputs.slope.amax(-1), limit=limit, kind=kind
    )


def _kinds(outputs: FarOutputs, floor: float) -> Any:
    sign = outputs.sign
    kind = np.full(sign.shape[:-1], KINDS[3], dtype="<U9")
    kind[~sign.isnan().any(-1).numpy()] = KINDS[1]
    if not floor:
        kind[(sign == -1).all(-1).numpy()] = KINDS[2]
    kind[(sign == 1).any(-1).numpy()] = KINDS[0]
    return kind


def _log_concentrations(head: Head, outputs: Tensor) -> Tensor:
    assert head.log_concentrations is not None
    return head.log_concentrations(outputs)
