"""Networks in exact fractions: no rounding anywhere, for small networks.

The user's own `forward` runs as everywhere in the geometry, over maps whose numbers are
`fractions.Fraction`. A linear layer is applied by its matrix: what it makes of each unit vector, in
float64. One weight an entry, the matrix is the layer. Where a layer computes its factor (the scale
of BatchNorm, the 1 / k of an average, a division) the factor is taken as float64 gives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.exact.domains import (
    AtInfinity,
    Exact,
    ExactDomain,
    as_floats,
    check_units,
    coefs_of,
    filled,
    fractions_of,
    part_of,
)
from nescio.geometry.rays.far_field import FarField, LastRegion
from nescio.geometry.tracing.domain import Part, Points
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_points,
    as_rays,
    instances,
    together,
)

Point = tuple[Fraction, ...]
Interval = tuple[Fraction, Fraction | None]  # None: without end
Polygon = tuple[Point, ...]
T = TypeVar("T")

WEIGHTS = 5_000  # of one network: a pass over more takes minutes


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactFarField:
    """Logits `slope * t + intercept` for t >= radius, in fractions; a model has `(M, ...)`.

    slope, intercept: of the logits, `(N, C)`.
    radius: the last breakpoint, 0 if there is none, `(N,)`.
    V, a: the affine map of the last region, `(N, C, D)` and `(N, C)`.
    limit: class probabilities as t grows without end, rounded once, `(N, C)`.
    kind: `"one"`, `"tie"` or `"constant"`, `(N,)`.
    """

    slope: Exact
    intercept: Exact
    radius: Exact
    V: Exact
    a: Exact
    limit: Tensor
    kind: Any

    def rounded(self) -> FarField:
        """The same in float64, each number to its nearest."""
        zero = (self.V == 0).any((-2, -1))
        ordered = np.sort(self.slope, -1)
        last = LastRegion(
            V=as_floats(self.V),
            a=as_floats(self.a),
            zero_entries=torch.as_tensor(zero),
            duplicate_slopes=torch.as_tensor((ordered[..., 1:] == ordered[..., :-1]).any(-1)),
            tied_top=torch.as_tensor((ordered[..., -1:] == ordered[..., -2:-1]).any(-1)),
        )
        numbers = {
            name: as_floats(getattr(self, name)) for name in ("slope", "intercept", "radius")
        }
        return FarField(**numbers, limit=self.limit, kind=self.kind, last_region=last)


@dataclass(frozen=True, eq=False)
class ExactRay:
    """Affine logits `slope * t + intercept` between the breakpoints of a ray, from t = 0 on."""

    breakpoints: tuple[Fraction, ...]  # (P - 1,) ascending
    slope: Exact  # (P, C)
    intercept: Exact  # (P, C)

    def at(self, t: Any) -> tuple[Fraction, ...]:
        """The logits at one t >= 0."""
        t = Fraction(t)
        index = sum(t > b for b in self.breakpoints)
        return tuple(self.slope[index] * t + self.intercept[index])


@dataclass(frozen=True, eq=False)
class ExactRegions:
    """The convex parts of a box: logits are `maps @ (x, y, 1)` on each."""

    polygons: tuple[tuple[Point, ...], ...]  # counter-clockwise
    areas: tuple[Fraction, ...]
    maps: Exact  # (P, C, 3)

    def __len__(self) -> int:
        return len(self.polygons)


def exact_far_field(source: Source, origin: Any, direction: Any) -> ExactFarField:
    """What `far_field` gives, in exact fractions: nothing is left undecided.

    source: a network, a model or a predictor; each member is analyzed by itself.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    """
    start, way = as_rays(origin, direction)
    members = [_last_region(instance, start, way) for instance in _small(source)]
    return together(source, members)


def exact_ray(net: Source, origin: Any, direction: Any, *, stop: float | None = None) -> ExactRay:
    """Every breakpoint of one ray `origin + t * direction` for 0 <= t <= stop, as fractions.

    net: a network, or a model or predictor of one member, of at most 5,000 weights.
    origin, direction: origin and direction of the ray, `(*features)`.
    stop: the largest t; None: the ray has no end.
    """
    start, way = as_rays(origin, direction)
    if len(start) != 1:
        raise NescioError(f"exact_ray reads one ray, got {len(start)}; call it for each")
    if stop is not None and not 0 < stop < float("inf"):
        raise NescioError(f"stop must be positive and finite, or None for no end, got {stop}")
    coefs = np.stack([fractions_of(way), fractions_of(start)])
    cells = ExactCells[Interval](
        [(Fraction(0), None if stop is None else Fraction(stop))], _cut_interval, _inside_interval
    )
    out = _run(_only(net), cells, coefs)
    order = sorted(range(len(cells.cells)), key=lambda row: cells.cells[row][0])
    breaks = tuple(cells.cells[row][0] for row in order[1:])
    return ExactRay(breaks, out[0][order], out[1][order])


def exact_regions(net: Source, box: Any) -> ExactRegions:
    """All linear regions of a network of two inputs in a box, as fractions.

    net: a network of two inputs, or a model or predictor of one member, of at most 5,000 weights.
    box: `[(low, high), (low, high)]` of the two inputs.
    """
    (left, right), (low, high) = _as_box(box)
    corners = ((left, low), (right, low), (right, high), (left, high))
    coefs = np.array([[[1, 0]], [[0, 1]], [[0, 0]]], dtype=object) * Fraction(1)
    cells = ExactCells[Polygon]([corners], _cut_polygon, _inside_polygon)
    out = _run(_only(net), cells, coefs)
    areas = tuple(_area_of(polygon) for polygon in cells.cells)
    return ExactRegions(tuple(cells.cells), areas, np.moveaxis(out, 0, -1))


def _small(source: Source) -> list[Instance]:
    found = instances(source)
    for instance in found:
        count = sum(p.numel() for p in instance.net.parameters())
        if count > WEIGHTS:
            raise NescioError(
                f"exact fractions are for small networks, at most {WEIGHTS} weights; this one has "
                f"{count}; use far_field, ray or regions, which say where rounding matters"
            )
    return found


def _only(source: Source) -> Instance:
    found = _small(source)
    if len(found) != 1:
        raise NescioError(
            f"exact linear regions are those of one network, got {len(found)} members; pass one of "
            "them"
        )
    return found[0]


def _run(instance: Instance, domain: ExactDomain, coefs: Exact) -> Exact:
    """The maps of the logits; a float64 pass goes first, which checks that they can be traced."""
    reached, points = as_floats(coefs[:, :1].sum(0)), Points()
    instance.run(points, points.start(reached, reached))
    return coefs_of(instance.run(domain, part_of(coefs)))


def _as_box(box: Any) -> tuple[tuple[Fraction, Fraction], ...]:
    sides = as_points(box, "box")
    if tuple(sides.shape) != (2, 2) or not (sides[:, 0] < sides[:, 1]).all():
        raise NescioError(f"box must be [(low, high), (low, high)] with low < high, got {box}")
    return tuple((Fraction(low), Fraction(high)) for low, high in sides.tolist())


def _last_region(instance: Instance, origin: Tensor, direction: Tensor) -> ExactFarField:
    """Beside slope and intercept run the unit vectors: their images are the columns of V."""
    size, rays = origin[0].numel(), len(origin)
    check_units(size)
    unit = np.eye(size, dtype=int).astype(object) * Fraction(1)
    unit = unit.reshape(size, 1, *origin.shape[1:]).repeat(rays, 1)
    start = np.concatenate([fractions_of(direction)[None], unit, fractions_of(origin)[None]])
    domain = AtInfinity(rays)
    out = _run(instance, domain, start)
    slope, V, intercept = out[0], np.moveaxis(out[1:-1], 0, -1), out[-1]
    a = intercept - (V * fractions_of(origin).reshape(rays, 1, size)).sum(-1)
    top = slope == slope.max(-1, keepdims=True)
    kind = np.where(top.sum(-1) == 1, "one", "tie").astype("<U9")
    kind[(slope == 0).all(-1)] = "constant"
    best = np.where(top, intercept, min(intercept.flat)).max(-1, keepdims=True)
    gaps = as_floats(np.where(top, intercept - best, 0))
    limit = torch.where(torch.as_tensor(top), gaps, -torch.inf).softmax(-1)
    radius = filled(domain.radius)
    return ExactFarField(
        slope=slope, intercept=intercept, radius=radius, V=V, a=a, limit=limit, kind=kind
    )


class ExactCells(ExactDomain, Generic[T]):
    """Rows are cells; `cut` splits one along a line into what is below and what is above."""

    def __init__(self, cells: list[T], cut: Any, inside: Any) -> None:
        super().__init__()
        self.cells, self._cut, self._inside = cells, cut, inside
        self.parents: list[list[int]] = []  # by version: the row each newer row came from

    def refine(self, lines: Any) -> None:
        rows: Exact = np.moveaxis(lines, 0, -1)  # (R, U, K)
        split = []
        for cell, row in zip(self.cells, rows, strict=True):
            parts = [cell]
            for line in dict.fromkeys(map(tuple, row)):
                parts = [p for part in parts for p in self._cut(part, line) if p is not None]
            split.append(parts)
        self._renew(split)

    def envelope(self, lines: Any) -> None:
        windows: Exact = np.moveaxis(lines, 0, -1)  # (R, U, W, K)
        split = []
        for cell, row in zip(self.cells, windows, strict=True):
            parts = [cell]
            for window in row:
                members = sorted(set(map(tuple, window)))
                parts = [p for part in parts for p in self._winners(part, members)]
            split.append(parts)
        self._renew(split)

    def _winners(self, cell: T, lines: Sequence[Point]) -> list[T]:
        """Where each line is the largest."""
        found = []
        for line in lines:
            kept: T | None = cell
            for other in lines:
                gap = tuple(a - b for a, b in zip(line, other, strict=True))
                if other != line and kept is not None:
                    kept = self._cut(kept, gap)[1]
            if kept is not None:
                found.append(kept)
        return found

    def _renew(self, split: list[list[T]]) -> None:
        self.cells = [cell for parts in split for cell in parts]
        self.parents.append([row for row, parts in enumerate(split) for _ in parts])
        self.version += 1

    def current(self, part: Part) -> Part:
        if part.version == self.version:
            return part
        rows = np.arange(coefs_of(part).shape[1])
        for parents in self.parents[part.version :]:
            rows = rows[parents]
        return part_of(coefs_of(part)[:, rows], self.version)

    def above(self, lines: Any, error: Any = None) -> Any:  # noqa: ARG002
        rows = [v for cell in self.cells for v in (*self._inside(cell), Fraction(1))]
        inside = filled(rows).reshape(len(self.cells), -1)
        return (lines * inside.T[:, :, None]).sum(0) > 0


def _cut_interval(interval: Interval, line: Point) -> tuple[Interval | None, Interval | None]:
    """What of an interval is below the line and what above; None where nothing is."""
    (start, end), (p, q) = interval, line
    root = -q / p if p != 0 else None
    if root is None or root <= start or (end is not None and root >= end):
        middle = _inside_interval(interval)[0]
        return (None, interval) if p * middle + q >= 0 else (interval, None)
    left, right = (start, root), (root, end)
    return (left, right) if p > 0 else (right, left)


def _inside_interval(interval: Interval) -> Point:
    """A point inside an interval."""
    start, end = interval
    return (start + 1 if end is None else (start + end) / 2,)


def _cut_polygon(polygon: Polygon, line: Point) -> tuple[Polygon | None, Polygon | None]:
    """What of a convex polygon is below the line and what above; None where nothing is."""
    a, b, c = line
    heights = [a * x + b * y + c for x, y in polygon]
    if all(h >= 0 for h in heights):
        return None, polygon
    if all(h <= 0 for h in heights):
        return polygon, None
    below: list[Point] = []
    above: list[Point] = []
    corners = list(zip(polygon, heights, strict=True))
    for (corner, height), (following, next_height) in pairwise([*corners, corners[0]]):
        if height <= 0:
            below.append(corner)
        if height >= 0:
            above.append(corner)
        if height * next_height < 0:
            share = height / (height - next_height)
            crossing = tuple(u + share * (v - u) for u, v in zip(corner, following, strict=True))
            below.append(crossing)
            above.append(crossing)
    return tuple(below), tuple(above)


def _inside_polygon(polygon: Polygon) -> Point:
    """A point inside a convex polygon."""
    x, y = zip(*polygon, strict=True)
    return sum(x) / len(polygon), sum(y) / len(polygon)


def _area_of(polygon: Polygon) -> Fraction:
    """The shoelace formula."""
    closed = pairwise([*polygon, polygon[0]])
    return sum((x * v - u * y for (x, y), (u, v) in closed), start=Fraction(0)) / 2
