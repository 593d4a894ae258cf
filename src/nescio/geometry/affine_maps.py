"""The region around a point: the affine map a ReLU network is there, and where the region ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import (
    Bend,
    Domain,
    Linear,
    Part,
    Points,
    below_point,
    bent,
    generic,
    units,
)
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_points,
    blocks,
    instances,
    together,
)

BYTES = 24 << 20  # of the widest layer of one block of points
WHOLE = 256 << 20  # of the widest layer of one block of points with their half-spaces
LIMIT = 4 << 30  # bytes a result may have


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine:
    """The network on the region of each point: `net(z) = V z + a`; unpacks as `V, a`.

    Of a bare network the shapes are as below; of a model with M members `(M, ...)`.

    V: slopes of the logits, `(N, C, D)`.
    a: intercepts, `(N, C)`.
    normals: normals of the U faces of the region, `(N, U, D)`; None unless half-spaces were asked
      for.
    offsets: their offsets, `(N, U)`: the region is where `normals @ z + offsets >= 0`.
    """

    V: Tensor
    a: Tensor
    normals: Tensor | None = None
    offsets: Tensor | None = None

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.V, self.a))


@dataclass(frozen=True, eq=False)
class Monotone:
    """Whether each logit rises or falls with each feature on the region of a point.

    monotone: whether V has no zero entry, `(N,)`; `(M, N)` of a model.
    zero_entries: number of entries of V that are exactly 0, `(N,)`.
    share: share of the points whose V has a zero entry.
    """

    monotone: Tensor
    zero_entries: Tensor
    share: float


def affine(source: Source, x: Any, *, direction: Any = None, half_spaces: bool = False) -> Affine:
    """The affine map of each point's region: `V, a = affine(net, x)` with `net(x) = V x + a`.

    Features of images are flattened: D is channels x height x width, in the order of
    `x.flatten(1)`, so that `V @ x.flatten(1)[..., None]` fits.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x: points, `(N, *features)`.
    direction: `(*features)`; a point on a face gets the region that this way leads into. None: a
      fixed direction that lies in no face.
    half_spaces: whether to give also the closed region as `normals @ z + offsets >= 0`, a row for
      each unit and each bend of its activation; max pooling gives the winner minus each other
      member of a window. A constant unit has a row of zeros. `(N, U, D)` is large: more than 4 GB
      are refused.
    """
    points = as_points(x, "x")
    way = _direction(direction, points)
    members = [_of_one(instance, points, way, half_spaces) for instance in instances(source)]
    if half_spaces and len({member.normals.shape for member in members}) > 1:  # type: ignore
        raise NescioError(
            "members of different architectures have different numbers of half-spaces; "
            "call affine on each network"
        )
    return together(source, members)


def monotone(source: Source, x: Any) -> Monotone:
    """Whether V has a zero entry at each point, compared exactly: only a dead path gives one.

    Where V has none, every logit is strictly monotone in every feature on that region.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x: points, `(N, *features)`.
    """
    points = as_points(x, "x")
    counts = []
    for instance in instances(source):
        zeros = [(V == 0).sum((1, 2)) for V, _ in maps_at(instance, points)]
        counts.append(torch.cat(zeros))
    found = together(source, counts)
    return Monotone(found == 0, found, float((found > 0).double().mean()))


def _direction(direction: Any, points: Tensor) -> Tensor:
    if direction is None:
        return generic(points.shape[1:])
    way = as_points(direction, "direction")
    if way.shape[1:] == points.shape[1:] and len(way) == 1:
        way = way[0]
    if way.shape != points.shape[1:]:
        raise NescioError(
            f"direction must have the shape of one point, {tuple(points.shape[1:])}, got "
            f"{tuple(way.shape)}"
        )
    return way


def _of_one(instance: Instance, x: Tensor, way: Tensor, half_spaces: bool) -> Affine:
    trial, classes = _trial(instance, x, way)
    size = x[0].numel()
    _refuse_large(len(x) * classes * size, "the maps")
    if half_spaces:
        _refuse_large(len(x) * trial.faces * (size + 1), f"{trial.faces} half-spaces per point")
    maps = list(maps_at(instance, x, way))
    V, a = (torch.cat([part[i] for part in maps]) for i in (0, 1))
    if not half_spaces:
        return Affine(V=V, a=a)
    rows = max(1, WHOLE // (8 * (size + 1) * max(1, trial.widest, trial.faces)))
    found = []
    for block in blocks(len(x), rows):
        domain = HalfSpaces(x[block], way)
        instance.run(domain, domain.whole())
        found.append(domain.half_spaces())
    normals, offsets = (torch.cat([part[i] for part in found]) for i in (0, 1))
    return Affine(V=V, a=a, normals=normals, offsets=offsets)


def _trial(instance: Instance, x: Tensor, way: Tensor) -> tuple[Points, int]:
    """What one point takes: the widest layer, the faces, and the number of classes."""
    domain = Points()
    out = instance.run(domain, domain.start(x[:1], way))
    return domain, out.features[0]


def _refuse_large(numbers: int, what: str) -> None:
    if 8 * numbers > LIMIT:
        raise NescioError(
            f"{what} would take {8 * numbers / 2**30:.1f} GB, more than {LIMIT >> 30} GB; pass "
            "fewer points at a time"
        )


def maps_at(
    instance: Instance, x: Tensor, way: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """V `(n, C, D)` and a `(n, C)`, block by block: one backward pass per class."""
    way = generic(x.shape[1:]) if way is None else way
    trial, _ = _trial(instance, x, way)
    rows = max(1, BYTES // (24 * max(1, trial.widest)))
    for block in blocks(len(x), rows):
        points = Points()
        with torch.no_grad():
            a = instance.run(points, points.start(x[block], way)).coefs[2]
        again = Again(points.sides)  # the gradient runs through the linear part alone
        inputs = x[block].clone().requires_grad_()
        with torch.enable_grad():
            out = instance.run(again, again.start(inputs)).coefs[0]
            V = gradients(out, inputs)
        yield V, a.clone()


def gradients(outputs: Tensor, inputs: Tensor) -> Tensor:
    """The derivatives `(N, C, D)` of outputs `(N, C)` by the features of inputs."""
    found = [_gradient(outputs[:, c], inputs) for c in range(outputs.shape[1])]
    return torch.stack(found, 1)


def _gradient(output: Tensor, inputs: Tensor) -> Tensor:
    if not output.requires_grad:  # a constant network
        return torch.zeros_like(inputs).flatten(1)
    found = torch.autograd.grad(output.sum(), inputs, retain_graph=True)[0]
    return found.flatten(1)


class Again(Domain):
    """The linear part alone, `(1, R, *features)`, on the sides that points have taken before."""

    def __init__(self, sides: Sequence[Tensor]) -> None:
        super().__init__()
        self.sides = iter(sides)

    def start(self, x: Tensor) -> Part:
        return self.made(Part(x[None]))

    def map(self, part: Part, linear: Linear) -> Part:
        return super().map(part, Linear(linear.function))

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        return next(self.sides)

    def bend(self, part: Part, bend: Bend) -> Part:
        sides = [next(self.sides).reshape(-1, *part.features) for _ in bend.points]
        linear = replace(bend, offsets=(0.0,) * len(bend.offsets))
        return self.made(Part(bent(part.coefs, sides, linear)))


class HalfSpaces(Points):
    """Coefs are `(D + 1, R, *features)`: the whole map of each row, and so its faces."""

    def __init__(self, x: Tensor, direction: Tensor) -> None:
        super().__init__()
        self.x = x  # (R, *features)
        self.direction = direction.flatten()
        self.found: list[Tensor] = []  # (D + 1, R, U): at least zero on the region

    def whole(self) -> Part:
        """The inputs themselves as the unknowns."""
        rows, shape = len(self.x), self.x.shape[1:]
        size = self.direction.numel()
        unit = torch.eye(size, dtype=torch.float64).reshape(size, 1, *shape)
        coefs = torch.zeros(size + 1, rows, *shape, dtype=torch.float64)
        coefs[:-1] = unit
        return self.made(Part(coefs))

    def value(self, lines: Tensor) -> Tensor:
        linear = torch.einsum("kru,rk->ru", lines[:-1], self.x.flatten(1))
        return linear + lines[-1]

    def growth(self, lines: Tensor) -> Tensor:
        return torch.einsum("kru,k->ru", lines[:-1], self.direction)

    def bend(self, part: Part, bend: Bend) -> Part:
        for point in bend.points:
            lines = units(below_point(part.coefs, point))
            self.found.append(torch.where(self.above(lines), lines, -lines))
        return super().bend(part, bend)

    def largest(self, parts: Sequence[Part]) -> Part:
        best = super().largest(parts)
        every = torch.stack([units(part.coefs) for part in parts], -1)  # (K, R, U, W)
        best_lines = units(best.coefs)
        winner = (every == best_lines[..., None]).all(0).int().argmax(-1)  # (R, U)
        for step in range(1, len(parts)):
            place = ((winner + step) % len(parts)).expand(len(every), *winner.shape)
            self.found.append(best_lines - every.gather(3, place[..., None])[..., 0])
        return best

    def half_spaces(self) -> tuple[Tensor, Tensor]:
        """Normals `(R, U, D)` and offsets `(R, U)`."""
        lines = [*self.found, torch.empty(self.direction.numel() + 1, len(self.x), 0)]
        every = torch.cat(lines, 2).permute(1, 2, 0)
        return every[..., :-1].contiguous(), every[..., -1].contiguous()
