"""What the regions of a network are computed over: points, rays, intervals, polygons, infinity.

A value is piecewise affine in a few unknowns. On every row (a ray, an interval, a polygon) it is
one affine map: `coefs` of shape `(K, R, *features)`, the last of the K being the constant. Affine
layers act on all K x R maps as a batch. An activation asks the domain on which side of its bend
each unit of each row lies; a domain with cells first cuts them so that there is one answer a row.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Bend:
    """A continuous piecewise affine activation: `slopes[i] * z + offsets[i]` between `points`.

    Points, slopes and offsets are numbers or tensors that broadcast against the features.
    """

    points: tuple[Any, ...]
    slopes: tuple[Any, ...]  # one more than points
    offsets: tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """A tensor of the network as a function of the unknowns, at one version of the rows."""

    coefs: Tensor  # (K, R, *features), the constant last
    version: int = 0
    error: Any = None  # what a domain keeps beside: bounds on an error

    @property
    def features(self) -> tuple[int, ...]:
        return tuple(self.coefs.shape[2:])


class Domain:
    """How parts are combined; a subclass says on which side of a line its rows lie."""

    def __init__(self) -> None:
        self.version = 0
        self.widest = 0  # features of the widest tensor met, to size blocks by
        self.units: list[int] = []  # lines at each activation or pooling

    # -- what a subclass gives

    @abstractmethod
    def above(self, lines: Tensor, error: Any = None) -> Tensor:
        """Whether each line `(K, R, U)` is above zero on its row: `(R, U)`."""

    def refine(self, lines: Tensor) -> None:
        """Cut the rows until no line `(K, R, U)` changes sign inside one."""

    def envelope(self, lines: Tensor) -> None:
        """Cut the rows until one of the W lines `(K, R, U, W)` is the largest on each."""

    def current(self, part: Part) -> Part:
        """The same part on the rows as they are now."""
        return part

    # -- what the layers of a network need

    def map(
        self,
        part: Part,
        function: Function,
        *,
        absolute: Function | None = None,  # noqa: ARG002
        terms: int = 1,  # noqa: ARG002
        constant: Tensor | float | None = None,
    ) -> Part:
        """A linear function of each sample, plus a constant.

        absolute: the function with the magnitudes of its weights, where they are not positive.
        terms: how many products one output sums.
        """
        K, R = part.coefs.shape[:2]
        out = function(part.coefs.flatten(0, 1))
        out = out.unflatten(0, (K, R))
        if constant is not None:
            out = plus_constant(out, constant)
        return self.made(Part(out, part.version))

    def add(self, first: Part, second: Part) -> Part:
        """The sum of two parts."""
        first, second = self.current(first), self.current(second)
        return self.made(Part(first.coefs + second.coefs, first.version))

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        """Parts side by side along an axis of the samples, counted as in a batch of samples."""
        parts = [self.current(part) for part in parts]
        axis = dim + 1 if dim >= 0 else dim
        return self.made(Part(torch.cat([p.coefs for p in parts], axis), parts[0].version))

    def bend(self, part: Part, bend: Bend) -> Part:
        """An activation, applied to every unit."""
        part = self.current(part)
        lines = [units(below_point(part.coefs, point)) for point in bend.points]
        self.units.append(sum(line.shape[2] for line in lines))
        self.refine(lines[0] if len(lines) == 1 else torch.cat(lines, 2))
        part = self.current(part)
        sides = [
            self.above(units(below_point(part.coefs, point))).reshape(-1, *part.features)
            for point in bend.points
        ]
        return self.made(Part(bent(part.coefs, sides, bend), part.version))

    def largest(self, parts: Sequence[Part]) -> Part:
        """The largest of several parts, unit by unit; the first of equals."""
        parts = [self.current(part) for part in parts]
        shape = parts[0].features
        self.units.append(parts[0].coefs[0, 0].numel() * len(parts) * (len(parts) - 1) // 2)
        self.envelope(torch.stack([units(p.coefs) for p in parts], -1))
        parts = [self.current(part) for part in parts]
        best = parts[0].coefs
        for part in parts[1:]:
            higher = self.above(units(part.coefs - best)).reshape(-1, *shape)
            best = torch.where(higher, part.coefs, best)
        return self.made(Part(best, parts[0].version))

    def made(self, part: Part) -> Part:
        self.widest = max(self.widest, part.coefs[0, 0].numel())
        return part


def units(coefs: Tensor) -> Tensor:
    """All features on one axis: `(K, R, U)`; a sample may be a single number."""
    return coefs.reshape(*coefs.shape[:2], -1)


def plus_constant(coefs: Tensor, constant: Tensor | float) -> Tensor:
    """`coefs` with a constant that broadcasts against the features added, in place if it can be."""
    constant = torch.as_tensor(constant, dtype=coefs.dtype)
    shape = np.broadcast_shapes(coefs.shape[1:], constant.shape)
    if shape != coefs.shape[1:]:
        coefs = coefs.expand(len(coefs), *shape)
    if coefs.requires_grad or not coefs.is_contiguous() or coefs._base is not None:
        coefs = coefs.clone()
    coefs[-1] += constant
    return coefs


def below_point(coefs: Tensor, point: Any) -> Tensor:
    """The line `z - point`."""
    if isinstance(point, (int, float)) and point == 0:
        return coefs
    return plus_constant(coefs.clone(), -torch.as_tensor(point, dtype=coefs.dtype))


def bent(coefs: Tensor, sides: Sequence[Tensor], bend: Bend) -> Tensor:
    """The maps after an activation, given on which side of each bend point every unit lies."""
    slope, offset = _number(bend.slopes[0]), _number(bend.offsets[0])
    for side, steeper, moved in zip(sides, bend.slopes[1:], bend.offsets[1:], strict=True):
        slope = torch.where(side, _number(steeper), slope)
        offset = torch.where(side, _number(moved), offset)
    out = coefs * slope
    flat = all(isinstance(o, (int, float)) and o == 0 for o in bend.offsets)
    return out if flat else plus_constant(out, offset)


def _number(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)
