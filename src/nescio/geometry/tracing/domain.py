"""What the regions of a network are computed over: points, rays, intervals, polygons, infinity.

A value is piecewise affine in a few unknowns. On every row (a ray, an interval, a polygon) it is
one affine map: `coefs` of shape `(K, R, *features)`, the last of the K being the constant. Affine
layers act on all K x R maps as a batch. An activation asks the domain on which side of its bend
each unit of each row lies; a domain with cells first cuts them so that there is one answer a row.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Bend:
    """A continuous piecewise affine activation: `slopes[i] * z + offsets[i]` between `points`.

    Points, slopes and offsets are numbers or tensors that broadcast against the features.
    """

    points: tuple[Any, ...]
    slopes: tuple[Any, ...]  # one more than points
    offsets: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A function that is not piecewise affine, of each unit by itself or of all units together."""

    name: str
    function: Function
    steepest: float  # it stretches by at most so much; of all units together, in the 2-norm
    shape: tuple[int, ...] | None = None  # of its outputs; None: of each unit by itself


@dataclass(frozen=True)
class Linear:
    """A linear function of each sample, plus a constant."""

    function: Function
    absolute: Function | None = field(default=None, kw_only=True)  # with the weights' magnitudes
    counts: Function | None = field(
        default=None, kw_only=True
    )  # of weights that are not 0, float32
    terms: int = field(default=1, kw_only=True)  # how many products one output sums
    norm: Callable[[], float] | None = field(
        default=None, kw_only=True
    )  # bounds how much it stretches, in the 2-norm
    constant: Tensor | float | None = field(default=None, kw_only=True)

    @property
    def is_choice(self) -> bool:
        """Whether it only takes, moves or copies units."""
        return self.absolute is None and self.terms == 1 and self.constant is None

    def magnitudes(self, x: Tensor) -> Tensor:
        """The function with positive weights, without the constant."""
        return (self.absolute or self.function)(x)

    def reached(self, nonzero: Tensor) -> Tensor:
        """Which outputs have a term that is not 0, given which inputs are not."""
        return (self.counts or self.magnitudes)(nonzero.float()) > 0


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
    """How parts are combined, layer by layer; a subclass says where its rows lie: `above`."""

    def __init__(self) -> None:
        self.version = 0
        self.widest = 0  # features of the widest tensor met, to size blocks by
        self.units: list[int] = []  # lines at each activation or pooling

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

    def map(self, part: Part, linear: Linear) -> Part:
        """A linear function of each sample, plus a constant."""
        out = linear.function(part.coefs.flatten(0, 1)).unflatten(0, part.coefs.shape[:2])
        if linear.constant is not None:
            own = out.untyped_storage().data_ptr() != part.coefs.untyped_storage().data_ptr()
            out = plus_constant(out if own else out.clone(), linear.constant)
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

    def curve(self, part: Part, curve: Curve) -> Part:  # noqa: ARG002
        """A function that is not affine anywhere; only a domain that bounds slopes takes it."""
        raise NescioError(f"{curve.name} is not piecewise affine")

    def made(self, part: Part) -> Part:
        self.widest = max(self.widest, part.coefs[0, 0].numel())
        return part


def units(coefs: Tensor) -> Tensor:
    """All features on one axis: `(K, R, U)`; a sample may be a single number."""
    return coefs.reshape(*coefs.shape[:2], -1)


def plus_constant(coefs: Tensor, constant: Tensor | float) -> Tensor:
    """`coefs` with a constant that broadcasts against the features added, in place if it can be.

    They are new: nothing else reads them.
    """
    constant = torch.as_tensor(constant, dtype=coefs.dtype)
    shape = np.broadcast_shapes(coefs.shape[1:], constant.shape)
    if shape != coefs.shape[1:]:
        coefs = coefs.expand(len(coefs), *shape)
    if coefs.requires_grad or not coefs.is_contiguous():
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


RELU = Bend((0.0,), (0.0, 1.0), (0.0, 0.0))


@dataclass(frozen=True)
class Waiting:
    """What a domain keeps beside a part whose ReLU has not been taken yet."""

    error: Any


class Deferred(Domain):
    """Put in front of a domain: its ReLUs are taken when something other than a pool needs them.

    ReLU and the largest of several can be taken in either order. Pooling first leaves fewer units
    to bend, and no breakpoints of units that never win.
    """

    def bend(self, part: Part, bend: Bend) -> Part:
        if is_relu(bend):
            waits = isinstance(part.error, Waiting)
            return part if waits else Part(part.coefs, part.version, Waiting(part.error))
        return super().bend(self.settled(part), bend)

    def settled(self, part: Part) -> Part:
        """The part with its ReLU taken, if one waits."""
        return super().bend(plain(part), RELU) if isinstance(part.error, Waiting) else part

    def current(self, part: Part) -> Part:
        return super().current(self.settled(part))

    def map(self, part: Part, linear: Linear) -> Part:
        if isinstance(part.error, Waiting) and linear.is_choice:
            chosen = super().map(plain(part), linear)
            return Part(chosen.coefs, chosen.version, Waiting(chosen.error))
        return super().map(self.settled(part), linear)

    def add(self, first: Part, second: Part) -> Part:
        return super().add(self.settled(first), self.settled(second))

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        return super().join([self.settled(part) for part in parts], dim)

    def largest(self, parts: Sequence[Part]) -> Part:
        if all(isinstance(part.error, Waiting) for part in parts):
            return self.largest_waiting([plain(part) for part in parts])
        return super().largest([self.settled(part) for part in parts])

    def largest_waiting(self, parts: Sequence[Part]) -> Part:
        """The ReLU of the largest of several parts: the largest of them and 0."""
        zero = replace(parts[0], coefs=parts[0].coefs.new_zeros(()).expand_as(parts[0].coefs))
        return super().largest([zero, *parts])


def is_relu(bend: Bend) -> bool:
    """Whether an activation is the plain ReLU."""
    return bend.points == (0.0,) and bend.slopes == (0.0, 1.0)


def plain(part: Part) -> Part:
    """The part before the ReLU that waits."""
    return Part(part.coefs, part.version, part.error.error)


def generic(features: Sequence[int]) -> Tensor:
    """A fixed direction `(*features)` that no face of a network has a reason to contain."""
    source = torch.Generator().manual_seed(20_19)
    return torch.randn(tuple(features), dtype=torch.float64, generator=source)


class Points(Domain):
    """Rows are points: coefs are `(3, R, *features)`, V x, V direction, and the constant a.

    A unit is active where its value is positive, or zero and growing along the direction. With a
    generic direction every point so belongs to one region of full dimension.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faces = 0  # half-spaces that bound a region
        self.sides: list[Tensor] = []  # what `above` has answered, in order

    def start(self, x: Tensor, direction: Tensor) -> Part:
        return self.made(Part(torch.stack([x, direction.expand_as(x), torch.zeros_like(x)])))

    def value(self, lines: Tensor) -> Tensor:
        return lines[0] + lines[2]

    def growth(self, lines: Tensor) -> Tensor:
        return lines[1]

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        with torch.no_grad():
            value = self.value(lines)
            active = value > 0
            level = value == 0
            if level.any():
                active |= level & (self.growth(lines) > 0)
        self.sides.append(active)
        return active

    def bend(self, part: Part, bend: Bend) -> Part:
        self.faces += len(bend.points) * part.coefs[0, 0].numel()
        return super().bend(part, bend)

    def largest(self, parts: Sequence[Part]) -> Part:
        self.faces += (len(parts) - 1) * parts[0].coefs[0, 0].numel()
        return super().largest(parts)


class Values(Points):
    """Rows are points of which only the values count, so that any function can be applied."""

    def curve(self, part: Part, curve: Curve) -> Part:
        value = curve.function(self.value(part.coefs))
        return self.made(Part(torch.stack([value, *(torch.zeros_like(value),) * 2])))
