"""Rows are points: each gets the region it lies in, and on a face the region a direction leads to.

A unit is active where its value is positive, or zero and growing along the direction. With a
generic direction every point so belongs to one region of full dimension.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nescio.geometry.tracing.domain import Bend, Domain, Function, Part, below_point, bent, units


def generic(features: Sequence[int]) -> Tensor:
    """A fixed direction `(*features)` that no face of a network has a reason to contain."""
    source = torch.Generator().manual_seed(20_19)
    return torch.randn(tuple(features), dtype=torch.float64, generator=source)


class Points(Domain):
    """Coefs are `(3, R, *features)`: V x, V direction, and the constant a."""

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


class Again(Domain):
    """The linear part alone, `(1, R, *features)`, on the sides that points have taken before."""

    def __init__(self, sides: Sequence[Tensor]) -> None:
        super().__init__()
        self.sides = iter(sides)

    def start(self, x: Tensor) -> Part:
        return self.made(Part(x[None]))

    def map(self, part: Part, function: Function, **_: Any) -> Part:
        return super().map(part, function)

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
