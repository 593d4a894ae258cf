"""The linear regions of a network over a plane, as one value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.regions.locating import Finder
from nescio.geometry.tracing.instances import as_points

if TYPE_CHECKING:
    from nescio.geometry.regions.boundaries import Boundaries

Box = tuple[tuple[float, float], tuple[float, float]]


class Outlines(Sequence[Tensor]):
    """The corners `(k, 2)` of each region, cut out of one flat array when asked for."""

    def __init__(self, vertices: Tensor, offsets: Tensor) -> None:
        self.vertices, self.offsets = vertices, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"region {index} of {len(self)}")
        index %= len(self)
        return self.vertices[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.vertices.tensor_split(self.offsets[1:-1]))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Regions:
    """All linear regions of a network over a box of a plane, or over the whole plane.

    A point of the plane is `(u, v)`; the network's input there is `origin + u basis[0] + v
    basis[1]`. Corners run counter-clockwise. Of a region of the whole plane that has no end,
    `polygons` has the corners; it is their hull plus the cone between its two `directions`, the
    first of which leaves the last corner and the second the first.

    What is said about the end of a region is about the whole region, also where a box cuts it off.
    """

    vertices: Tensor  # (V, 2) corners of all regions, one region after the other
    offsets: Tensor  # (P + 1,) where each region starts in them
    maps: Tensor  # (P, C, 3): logits = maps @ (u, v, 1)
    areas: Tensor  # (P,) inside the box; inf without end
    unbounded: Tensor  # (P,)
    directions: Tensor  # (P, 2, 2) extreme directions without end, of length 1; NaN: bounded
    spread: Tensor  # (P,) angle between them; 0: one direction or its two opposites; NaN: bounded
    towards: Tensor  # (P, 4) without end towards -u, +u, -v, +v
    box: Box | None
    plane: tuple[Tensor, Tensor]  # origin (*features), basis (2, *features)
    bounds: dict[str, int] = field(default_factory=dict)  # published upper bounds on the regions
    seam: bool = False  # the whole plane was cut along a line that is no bend
    parts: "Regions | None" = None  # the convex parts that merged ones are made of
    group: Tensor | None = None  # (len(parts),) the merged region of each

    def __len__(self) -> int:
        return len(self.maps)

    def __repr__(self) -> str:
        where = "the whole plane" if self.box is None else f"box {self.box}"
        return f"Regions({len(self):,} regions, {int(self.unbounded.sum())} without end, {where})"

    @property
    def polygons(self) -> Outlines:
        return Outlines(self.vertices, self.offsets)

    def locate(self, points: Any) -> Tensor:
        """The region of each point `(N, 2)` of the plane, -1 outside the box."""
        where = as_points(points, "points")
        if where.shape[1:] != (2,):
            raise NescioError(f"points must be (N, 2) on the plane, got {tuple(where.shape)}")
        if self.parts is not None and self.group is not None:
            found = self.parts.locate(where)
            return torch.where(found >= 0, self.group[found], -1)
        return torch.from_numpy(self._finder(where.numpy()))

    def evaluate(self, points: Any) -> Tensor:
        """Logits `(N, C)` at points `(N, 2)` of the plane; NaN outside the box."""
        where = as_points(points, "points")
        found = self.locate(where)
        maps = self.maps[found]
        logits = torch.einsum("ncd,nd->nc", maps[..., :2], where) + maps[..., 2]
        logits[found < 0] = torch.nan
        return logits

    def inputs(self, points: Any) -> Tensor:
        """What the network is given at points `(N, 2)` of the plane."""
        where = as_points(points, "points")
        origin, basis = self.plane
        return origin + torch.einsum("nd,d...->n...", where, basis)

    def coordinates(self, x: Any) -> Tensor:
        """The nearest points `(N, 2)` of the plane to inputs of the network."""
        origin, basis = self.plane
        return (as_points(x, "x") - origin).flatten(1) @ basis.flatten(1).T

    @cached_property
    def boundaries(self) -> "Boundaries":
        """Where the two largest logits are equal."""
        from nescio.geometry.regions.boundaries import boundaries_of

        return boundaries_of(self)

    @cached_property
    def _finder(self) -> Finder:
        ways = None if self.box is not None else self.directions.numpy()
        return Finder.of(self.vertices.numpy(), self.offsets.numpy(), ways, self.box)


def joined(blocks: Sequence[Regions]) -> Regions:
    """Blocks of regions of one network as one value."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    names = [f.name for f in fields(Regions) if f.name not in ("offsets", "parts", "group")]
    values = {name: [getattr(block, name) for block in blocks] for name in names}
    flat: dict[str, Any] = {n: torch.cat(v) for n, v in values.items() if isinstance(v[0], Tensor)}
    counts = torch.cat([block.offsets.diff() for block in blocks])
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return replace(first, **flat, offsets=offsets, seam=any(block.seam for block in blocks))


def flat_offsets(counts: Any) -> Tensor:
    """Where each run starts in a flat array, given their lengths."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


__all__ = ["Box", "Outlines", "Regions", "flat_offsets", "joined"]
