"""The linear regions of a network over a plane, as one value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.regions.arrangement import ranges
from nescio.geometry.regions.convex import Floats, Ints
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

    vertices: corners of all P regions, one region after the other, `(V, 2)`.
    offsets: where each region starts in them, `(P + 1,)`.
    maps: the affine map of each region, `(P, C, 3)`: logits = maps @ (u, v, 1).
    areas: area inside the box, `(P,)`; infinite without end.
    unbounded: whether a region has no end, `(P,)`.
    directions: extreme directions without end, of length 1, `(P, 2, 2)`; NaN where bounded.
    spread: angle between them, `(P,)`; 0: one direction or its two opposites; NaN where bounded.
    towards: whether a region has no end towards -u, +u, -v and +v, `(P, 4)`.
    box: `[(low, high), (low, high)]` of the coordinates; None: the whole plane.
    plane: origin `(*features)` and basis `(2, *features)`.
    bounds: published upper bounds on the number of regions, by name.
    seam: whether the whole plane was cut along a line that is not a bend.
    parts: the convex parts that merged regions are made of; None unless they were merged.
    group: the merged region of each part, `(len(parts),)`.
    """

    vertices: Tensor
    offsets: Tensor
    maps: Tensor
    areas: Tensor
    unbounded: Tensor
    directions: Tensor
    spread: Tensor
    towards: Tensor
    box: Box | None
    plane: tuple[Tensor, Tensor]
    bounds: dict[str, int] = field(default_factory=dict)
    seam: bool = False
    parts: "Regions | None" = None
    group: Tensor | None = None

    def __len__(self) -> int:
        return len(self.maps)

    def __repr__(self) -> str:
        where = "the whole plane" if self.box is None else f"box {self.box}"
        return f"Regions({len(self):,} regions, {int(self.unbounded.sum())} without end, {where})"

    @property
    def polygons(self) -> Outlines:
        """The corners of each region, `(K, 2)`, as a sequence."""
        return Outlines(self.vertices, self.offsets)

    def locate(self, points: Any) -> Tensor:
        """The region of each of the `points` `(N, 2)` of the plane, -1 outside the box."""
        where = as_points(points, "points")
        if where.shape[1:] != (2,):
            raise NescioError(f"points must be (N, 2) on the plane, got {tuple(where.shape)}")
        if self.parts is not None and self.group is not None:
            found = self.parts.locate(where)
            return torch.where(found >= 0, self.group[found], -1)
        return torch.from_numpy(self._finder(where.numpy()))

    def evaluate(self, points: Any) -> Tensor:
        """Logits `(N, C)` at `points` `(N, 2)` of the plane; NaN outside the box."""
        where = as_points(points, "points")
        found = self.locate(where)
        maps = self.maps[found]
        logits = torch.einsum("ncd,nd->nc", maps[..., :2], where) + maps[..., 2]
        logits[found < 0] = torch.nan
        return logits

    def inputs(self, points: Any) -> Tensor:
        """What the network is given at `points` `(N, 2)` of the plane."""
        where = as_points(points, "points")
        origin, basis = self.plane
        return origin + torch.einsum("nd,d...->n...", where, basis)

    def coordinates(self, x: Any) -> Tensor:
        """The nearest points `(N, 2)` of the plane to the inputs `x` of the network."""
        origin, basis = self.plane
        return (as_points(x, "x") - origin).flatten(1) @ basis.flatten(1).T

    @cached_property
    def boundaries(self) -> "Boundaries":
        """Where the two largest logits are equal."""
        from nescio.geometry.regions.boundaries import boundaries_of

        return boundaries_of(self)

    @cached_property
    def _finder(self) -> "Finder":
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


PAIRS = 1 << 20  # of an edge and a point that are looked at together
CELLS = 1024  # of the grid along an axis, at most


@dataclass(frozen=True)
class Finder:
    """Half-planes `edges . (x, y, 1) >= 0` of each polygon, and the polygons near each cell."""

    edges: Floats  # (E, 3), normals of length 1
    offsets: Ints  # (P + 1,)
    lines: tuple[Floats, Floats]  # of the grid, across x and across y
    near: Ints  # polygons, cell by cell
    starts: Ints  # (cells + 1,)
    box: Any = None

    @classmethod
    def of(cls, vertices: Floats, offsets: Ints, ways: Floats | None, box: Any) -> "Finder":
        """ways: directions `(P, 2, 2)` of polygons without end, NaN for bounded ones."""
        edges, edge_offsets = half_planes(vertices, offsets, ways)
        if len(vertices) == 0:  # one region, the whole plane
            none = np.zeros(0)
            return cls(edges, edge_offsets, (none, none), np.zeros(1, np.int64), np.array([0, 1]))
        first, last = _extent(vertices, offsets, ways)
        across = int(np.clip(np.sqrt(len(first)), 1, CELLS))
        while True:
            share = np.linspace(0, 1, across + 1)[1:-1]
            lines = np.quantile(vertices[:, 0], share), np.quantile(vertices[:, 1], share)
            start, stop = _cells(lines, first), _cells(lines, last)
            span = stop - start + 1
            if across == 1 or span.prod(1).sum() <= 24 * len(span):
                break
            across //= 2
        owner, place = ranges(np.zeros(len(span), np.int64), span.prod(1))
        column = start[owner, 0] + place % span[owner, 0]
        cell = (start[owner, 1] + place // span[owner, 0]) * across + column
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(across * across + 1))
        return cls(edges, edge_offsets, lines, owner[order], starts, box)

    def __call__(self, points: Floats) -> Ints:
        """The polygon of each point, -1 for none; on an edge one of the two."""
        found = np.full(len(points), -1, dtype=np.int64)
        if len(self.edges) == 0:
            return np.zeros(len(points), dtype=np.int64)
        column, row = _cells(self.lines, points).T
        cell = row * (len(self.lines[0]) + 1) + column
        counts = self.starts[cell + 1] - self.starts[cell]
        load = np.cumsum(counts * (1 + self.offsets[-1] // max(1, len(self.offsets) - 1)))
        for part in np.split(np.arange(len(points)), np.flatnonzero(np.diff(load // PAIRS)) + 1):
            found[part] = self._best(points[part], cell[part], counts[part])
        if self.box is not None:
            (left, right), (bottom, top) = self.box
            x, y = points.T
            found[(x < left) | (x > right) | (y < bottom) | (y > top)] = -1
        return found

    def _best(self, points: Floats, cell: Ints, counts: Ints) -> Ints:
        """Of the polygons near each point the one it lies deepest in, or hardly outside."""
        who, slot = ranges(self.starts[cell], counts)
        region = self.near[slot]
        sizes = np.diff(self.offsets)[region]
        pair, edge = ranges(self.offsets[region], sizes)
        at = points[who[pair]]
        depth = (self.edges[edge, :2] * at).sum(1) + self.edges[edge, 2]
        depth = np.minimum.reduceat(depth, np.cumsum(sizes) - sizes)
        order = np.lexsort((depth, who))
        last = np.flatnonzero(np.diff(who[order], append=len(points)))
        best = order[last]
        good = depth[best] >= -1e-9 * (1 + np.abs(points[who[best]]).max(1))
        found = np.full(len(points), -1, dtype=np.int64)
        found[who[best][good]] = region[best][good]
        return found


def _cells(lines: tuple[Floats, Floats], points: Floats) -> Ints:
    """Column and row of each point in the grid."""
    return np.stack([np.searchsorted(lines[i], points[:, i]) for i in (0, 1)], 1)


def half_planes(vertices: Floats, offsets: Ints, ways: Floats | None) -> tuple[Floats, Ints]:
    """Inner half-planes of polygons, flat: `(E, 3)` and where each polygon starts."""
    counts = np.diff(offsets)
    open_ = np.zeros(len(counts), dtype=bool) if ways is None else ~np.isnan(ways[:, 0, 0])
    after = np.arange(len(vertices)) + 1
    after[offsets[1:][counts > 0] - 1] = offsets[:-1][counts > 0]
    along = vertices[after] - vertices
    at, owner = vertices, np.repeat(np.arange(len(counts)), counts)
    if ways is not None and open_.any():
        rows = np.flatnonzero(open_ & (counts > 0))
        along[offsets[1:][rows] - 1] = ways[rows, 0]  # leaves the last corner
        along = np.concatenate([along, -ways[rows, 1]])  # comes to the first
        at = np.concatenate([at, vertices[offsets[:-1][rows]]])
        owner = np.concatenate([owner, rows])
        order = np.argsort(owner, kind="stable")
        along, at, owner = along[order], at[order], owner[order]
    length = np.hypot(along[:, 0], along[:, 1])
    along = along / np.where(length > 0, length, 1.0)[:, None]
    normal = np.stack([-along[:, 1], along[:, 0]], 1)
    edges = np.concatenate([normal, -(normal * at).sum(1, keepdims=True)], 1)
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(counts)))])
    return edges, starts.astype(np.int64)


def _extent(vertices: Floats, offsets: Ints, ways: Floats | None) -> tuple[Floats, Floats]:
    """The smallest and largest coordinates of each polygon, infinite where it has no end."""
    first = np.minimum.reduceat(vertices, offsets[:-1])
    last = np.maximum.reduceat(vertices, offsets[:-1])
    if ways is not None:
        with np.errstate(invalid="ignore"):
            first[(ways < 0).any(1)] = -np.inf
            last[(ways > 0).any(1)] = np.inf
    return first, last
