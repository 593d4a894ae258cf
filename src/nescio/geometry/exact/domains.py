"""Domains over exact fractions: the affine maps are arrays of `fractions.Fraction`.

A linear function is applied by its matrix: what it makes of each unit vector, in float64.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import Bend, Domain, Linear, Part

UNITS = 1024  # of one layer, whose matrix is written out
Exact = np.ndarray[Any, np.dtype[Any]]  # of Fractions


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

    def map(self, part: Part, linear: Linear) -> Part:
        coefs = coefs_of(part)
        size = int(np.prod(part.features))
        check_units(size)
        unit = torch.eye(size, dtype=torch.float64).reshape(size, *part.features)
        with torch.no_grad():
            image = linear.function(unit)
        shape, matrix = tuple(image.shape[1:]), image.reshape(len(image), -1)
        rows = coefs.reshape(-1, size)
        if ((matrix != 0).sum(0) <= 1).all():  # a choice of units, each times a factor
            out = rows[:, matrix.abs().argmax(0).numpy()] * fractions_of(matrix.sum(0))
        else:
            out = _product(rows, fractions_of(matrix))
        out = out.reshape(*coefs.shape[:2], *shape)
        if linear.constant is not None:
            out = _plus(out, fractions_of(linear.constant))
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
