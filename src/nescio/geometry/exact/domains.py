"""Domains over exact fractions: the affine maps are arrays of `fractions.Fraction`.

A linear function is applied by its matrix: what it makes of each unit vector, in float64.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import Bend, Domain, Function, Part

UNITS = 1024  # of one layer, whose matrix is written out
Exact = np.ndarray[Any, np.dtype[Any]]  # of Fractions
Point = tuple[Fraction, ...]


def fractions_of(value: Any) -> Exact:
    """Numbers as an array of the fractions they are."""
    numbers = torch.as_tensor(value, dtype=torch.float64).detach().numpy()
    flat = [Fraction(float(v)) for v in numbers.ravel()]
    return filled(flat).reshape(numbers.shape)


def as_floats(value: Exact) -> Tensor:
    """Fractions, each as the nearest float64."""
    return torch.from_numpy(np.asarray(value, dtype=object).astype(np.float64))


def check_units(count: int) -> None:
    """Refuse layers whose matrix would be too large."""
    if count > UNITS:
        raise NescioError(
            f"exact fractions are for small networks, at most {UNITS} units in a layer; this one "
            f"has {count}"
        )


def part_of(coefs: Exact, version: int = 0) -> Part:
    """A part whose maps are fractions."""
    return Part(cast(Any, coefs), version)


def coefs_of(part: Part) -> Exact:
    """The maps of such a part."""
    coefs: Exact = cast(Any, part.coefs)
    return coefs


def filled(values: Sequence[Fraction]) -> Exact:
    """An array of fractions, one axis."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _whole(values: Exact) -> tuple[Exact, int]:
    """The values as whole numbers over one common denominator."""
    common = math.lcm(*(v.denominator for v in values.flat))
    whole = np.empty(values.size, dtype=object)
    whole[:] = [v.numerator * (common // v.denominator) for v in values.flat]
    return whole.reshape(values.shape), common


def _product(rows: Exact, matrix: Exact) -> Exact:
    """`rows @ matrix` in whole numbers, which is many times faster than in fractions."""
    (left, first), (right, second) = _whole(rows), _whole(matrix)
    out = np.dot(left, right)
    flat = [Fraction(int(v), first * second) for v in out.flat]
    return filled(flat).reshape(out.shape)


class ExactDomain(Domain):
    """A domain over arrays of Fractions `(K, R, *features)`; linear functions act as matrices."""

    def map(
        self,
        part: Part,
        function: Function,
        *,
        absolute: Function | None = None,  # noqa: ARG002
        terms: int = 1,  # noqa: ARG002
        constant: Tensor | float | None = None,
    ) -> Part:
        coefs = coefs_of(part)
        size = int(np.prod(part.features))
        check_units(size)
        with torch.no_grad():
            image = function(torch.eye(size, dtype=torch.float64).reshape(size, *part.features))
        shape, matrix = tuple(image.shape[1:]), image.reshape(len(image), -1)
        rows = coefs.reshape(-1, size)
        if ((matrix != 0).sum(0) <= 1).all():  # a choice of units, each times a factor
            out = rows[:, matrix.abs().argmax(0).numpy()] * fractions_of(matrix.sum(0))
        else:
            out = _product(rows, fractions_of(matrix))
        out = out.reshape(*coefs.shape[:2], *shape)
        if constant is not None:
            out = _plus(out, fractions_of(constant))
        return part_of(out, part.version)

    def add(self, first: Part, second: Part) -> Part:
        first, second = self.current(first), self.current(second)
        return part_of(coefs_of(first) + coefs_of(second), first.version)

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        parts = [self.current(part) for part in parts]
        axis = dim + 1 if dim >= 0 else dim
        return part_of(np.concatenate([coefs_of(p) for p in parts], axis), parts[0].version)

    def bend(self, part: Part, bend: Bend) -> Part:
        part = self.current(part)
        points = [fractions_of(point) for point in bend.points]
        lines: Any = np.concatenate([_lines(part, point) for point in points], 2)
        self.refine(lines)
        part = self.current(part)
        coefs = coefs_of(part)
        slope, offset = fractions_of(bend.slopes[0]), fractions_of(bend.offsets[0])
        steps = zip(points, bend.slopes[1:], bend.offsets[1:], strict=True)
        for point, steeper, moved in steps:
            side = self.above(_lines(part, point)).reshape(coefs.shape[1:])
            slope = np.where(side, fractions_of(steeper), slope)
            offset = np.where(side, fractions_of(moved), offset)
        return part_of(_plus(coefs * slope, offset), part.version)

    def largest(self, parts: Sequence[Part]) -> Part:
        parts = [self.current(part) for part in parts]
        windows: Any = np.stack([_flat(coefs_of(p)) for p in parts], -1)
        self.envelope(windows)
        parts = [self.current(part) for part in parts]
        best = coefs_of(parts[0])
        for part in parts[1:]:
            higher = self.above(_flat(coefs_of(part) - best)).reshape(best.shape[1:])
            best = np.where(higher, coefs_of(part), best)
        return part_of(best, parts[0].version)


def _flat(coefs: Exact) -> Any:
    return coefs.reshape(*coefs.shape[:2], -1)


def _lines(part: Part, point: Exact) -> Any:
    return _flat(_plus(coefs_of(part), -point))


def _plus(coefs: Exact, constant: Exact) -> Exact:
    """With a constant added that broadcasts against the features."""
    shape = np.broadcast_shapes(coefs.shape[1:], np.shape(constant))
    out = np.broadcast_to(coefs, (len(coefs), *shape)).copy()
    out[-1] = out[-1] + constant
    return out


class AtInfinity(ExactDomain):
    """Rows are rays: the first map is the slope in t, the last the constant."""

    def __init__(self, rays: int) -> None:
        super().__init__()
        self.radius = [Fraction(0)] * rays

    def refine(self, lines: Any) -> None:
        self._last_roots(lines)

    def envelope(self, lines: Any) -> None:
        windows: Exact = lines
        best = windows[..., 0]
        for i in range(1, windows.shape[-1]):
            best = np.where(self.above(windows[..., i] - best), windows[..., i], best)
        for i in range(windows.shape[-1]):
            self._last_roots(best - windows[..., i])

    def _last_roots(self, lines: Exact) -> None:
        for row, (slopes, constants) in enumerate(zip(lines[0], lines[-1], strict=True)):
            roots = (-q / p for p, q in zip(slopes, constants, strict=True) if p != 0)
            self.radius[row] = max(self.radius[row], max(roots, default=Fraction(0)))

    def above(self, lines: Any, error: Any = None) -> Any:  # noqa: ARG002
        p, q = lines[0], lines[-1]
        return (p > 0) | ((p == 0) & (q > 0))


# -- cells that are cut one by one


Interval = tuple[Fraction, Fraction | None]  # None: without end
Polygon = tuple[Point, ...]
T = TypeVar("T")


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
        inside = _filled_rows([(*self._inside(cell), Fraction(1)) for cell in self.cells])
        return (lines * inside.T[:, :, None]).sum(0) > 0


def _filled_rows(rows: list[Point]) -> Exact:
    return filled([v for row in rows for v in row]).reshape(len(rows), -1)


def cut_interval(interval: Interval, line: Point) -> tuple[Interval | None, Interval | None]:
    """What of an interval is below the line and what above; None where nothing is."""
    (start, end), (p, q) = interval, line
    root = -q / p if p != 0 else None
    if root is None or root <= start or (end is not None and root >= end):
        middle = inside_interval(interval)[0]
        return (None, interval) if p * middle + q >= 0 else (interval, None)
    left, right = (start, root), (root, end)
    return (left, right) if p > 0 else (right, left)


def inside_interval(interval: Interval) -> Point:
    """A point inside an interval."""
    start, end = interval
    return (start + 1 if end is None else (start + end) / 2,)


def cut_polygon(polygon: Polygon, line: Point) -> tuple[Polygon | None, Polygon | None]:
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


def inside_polygon(polygon: Polygon) -> Point:
    """A point inside a convex polygon."""
    x, y = zip(*polygon, strict=True)
    return sum(x) / len(polygon), sum(y) / len(polygon)


def area_of(polygon: Polygon) -> Fraction:
    """The shoelace formula."""
    closed = pairwise([*polygon, polygon[0]])
    return sum((x * v - u * y for (x, y), (u, v) in closed), start=Fraction(0)) / 2
