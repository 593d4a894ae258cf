"""Exact Lipschitz constants of ReLU networks: the operator norms of their affine maps.

On a linear region a network is `V z + a`, and its Lipschitz constant there is the operator norm of
V. Over a segment or a plane it is the largest over the regions that are met.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.affine_maps import maps_at
from nescio.geometry.lipschitz.norms import check_norm, operator_norm, vector_norm
from nescio.geometry.rays.breakpoints import regions_on, room
from nescio.geometry.regions.regions import regions
from nescio.geometry.regions.regions_value import Regions
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_points,
    as_rays,
    instances,
    together,
)


def local_lipschitz(source: Source, x: Any, *, norm: str = "l2") -> Tensor:
    """The Lipschitz constant of the logits on the linear region of each input, `(N,)`.

    An input on the border of several regions counts to the one that a fixed direction leads into.
    Of a model or predictor with M members `(M, N)`.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x: inputs, `(N, *features)`.
    norm: `"l2"`, `"linf"` or `"l1"`, of inputs and logits alike.
    """
    check_norm(norm)
    points = as_points(x, "x")
    return together(source, [_norms(instance, points, norm) for instance in instances(source)])


def _norms(instance: Instance, points: Tensor, norm: str) -> Tensor:
    return torch.cat([operator_norm(V, norm) for V, _ in maps_at(instance, points)])


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentLipschitz:
    """Constants of a network on N segments, exactly; of a model with M members `(M, N)`.

    along: constant of the network on the segment alone, `(N,)`: how fast its logits change along
      it.
    largest: largest constant over the linear regions that the segment meets, in all directions,
      `(N,)`.
    at: a position in the region with the largest constant, from 0 to 1, `(N,)`.
    regions: number of linear regions that a segment meets, `(N,)`.
    """

    along: Tensor
    largest: Tensor
    at: Tensor
    regions: Tensor


def segment_lipschitz(source: Source, x: Any, to: Any, *, norm: str = "l2") -> SegmentLipschitz:
    """The Lipschitz constants of the logits on the segments from `x` to `to`, exactly.

    Every linear region on the way is visited; `along` is the constant of the network on the
    segment, `largest` the largest `local_lipschitz` on it.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x, to: inputs `(N, *features)`, or one of them a single input.
    norm: `"l2"`, `"linf"` or `"l1"`, of inputs and logits alike.
    """
    check_norm(norm)
    start, end = as_rays(x, to)
    lengths = vector_norm((end - start).flatten(1), norm)
    if not (lengths > 0).all():
        raise NescioError("a segment needs two different inputs, got the same one twice")
    found = [_on_segments(one, start, end - start, lengths, norm) for one in instances(source)]
    return together(source, found)


def _on_segments(
    instance: Instance, start: Tensor, way: Tensor, lengths: Tensor, norm: str
) -> SegmentLipschitz:
    rows = torch.arange(len(start))
    lo, hi = torch.zeros(len(start)).double(), torch.ones(len(start)).double()
    row, first, last, slope, _ = regions_on(
        instance, (start, way), rows, lo, hi, limit=room(instance, start, way)
    )
    middle = (first + last) / 2
    factor = middle.reshape(-1, *(1 for _ in start.shape[1:]))
    norms = _norms(instance, start[row] + factor * way[row], norm)
    speed = vector_norm(slope, norm) / lengths[row]
    largest = lo.scatter_reduce(0, row, norms, "amax")
    best = norms == largest[row]
    return SegmentLipschitz(
        along=lo.scatter_reduce(0, row, speed, "amax"),
        largest=largest,
        at=lo.scatter(0, row[best], middle[best]),
        regions=torch.bincount(row, minlength=len(start)),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class PlaneLipschitz:
    """The constant of a network on each linear region of a plane, for moves within the plane.

    regions: the P linear regions of the plane.
    constants: the constant on each of them, `(P,)`.
    """

    regions: Regions
    constants: Tensor

    @property
    def largest(self) -> float:
        """The Lipschitz constant of the network on the plane."""
        return float(self.constants.max())


def plane_lipschitz(
    source: Source, box: Any = None, *, plane: Any = None, norm: str = "l2"
) -> PlaneLipschitz | tuple[PlaneLipschitz, ...]:
    """The Lipschitz constants of the logits on all linear regions of a plane, exactly.

    Of a model or predictor a tuple, one per member.

    source: a network, a model or a predictor; each member is analyzed by itself.
    box: `[(low, high), (low, high)]` of the plane's coordinates; None: the whole plane.
    plane: three inputs `(3, *features)` that span the plane; None: the network has two inputs.
    norm: `"l2"`, `"linf"` or `"l1"` for a network with two inputs; on a plane through other inputs
      it is `"l2"`.
    """
    check_norm(norm)
    if plane is not None and norm != "l2":
        raise NescioError(f'on a plane through inputs the norm is "l2", got {norm!r}')
    found = regions(source, box, plane=plane)
    if isinstance(found, Regions):
        return _on_plane(found, norm)
    return tuple(_on_plane(one, norm) for one in found)


def _on_plane(found: Regions, norm: str) -> PlaneLipschitz:
    return PlaneLipschitz(regions=found, constants=operator_norm(found.maps[..., :2], norm))
