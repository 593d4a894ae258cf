"""In which of many convex polygons each point lies: a grid with the polygons near each cell."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nescio.geometry.regions.arrangement import ranges
from nescio.geometry.regions.convex import Floats, Ints

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
