"""The limit of a network of two inputs in every direction at once.

Far away only directions matter. They run round a square, four sides `d = c + s * e` with s from -1
to 1, so a unit's growth `v . d` is affine in s on each side. Sectors are cut where a unit, or the
race of the classes, changes. Inside a sector a unit whose growth is 0 has v = 0: its sign is that
of its constant, and no limit depends on where the rays start.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import Categorical, InputShapeError, measure_all
from nescio.geometry.rays.far_field import KINDS
from nescio.geometry.regions.cells import Cells, limit_for, sweep
from nescio.geometry.tracing.domain import Part
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    check_classes,
    check_no_concentrations,
    instances,
)

CLOSE = 2.0**-50  # four roundings
CENTERS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class LimitMap:
    """Limits that are constant on S sectors of directions, from angle 0 round to 2 pi.

    On the border of two sectors itself the limit may be another, that of a tie.

    angles: borders of the sectors in radians, `(S + 1,)`, ascending.
    limit: class probabilities of the members, `(M, S, C)`.
    kind: `"one"`, `"tie"` or `"constant"`, `(M, S)`.
    """

    angles: Tensor
    limit: Tensor
    kind: Any

    @cached_property
    def measures(self) -> Mapping[str, Tensor]:
        """Every measure of the mixture by name, `(S,)`."""
        return measure_all(Categorical.from_probs(self.limit))

    @property
    def widths(self) -> Tensor:
        """The angle of each sector, `(S,)`; their sum is 2 pi."""
        return self.angles.diff()

    def sector(self, angle: Any) -> Tensor:
        """The sector of each `angle`, in radians."""
        turned = torch.as_tensor(angle, dtype=torch.float64).remainder(2 * math.pi)
        place = torch.searchsorted(self.angles, turned, right=True) - 1
        return place.clamp(0, self.limit.shape[1] - 1)

    def at(self, angle: Any) -> Tensor:
        """Limit probabilities of the members in directions, `(M, *angles, C)`.

        angle: angles of the directions, in radians.
        """
        return self.limit[:, self.sector(angle)]

    def share(self) -> dict[str, float]:
        """Shares of all directions.

        By kind, averaged over members: one class, a tie, a constant. By members: unanimous about
        the class or disagreeing; certain, where all give the same class probability 1.
        """
        weight = self.widths / self.widths.sum()
        each = {k: torch.as_tensor(self.kind == k).double().mean(0) for k in KINDS[:3]}
        labels = self.limit.argmax(-1)
        agree = (labels == labels[:1]).all(0)
        sure = agree & torch.as_tensor((self.kind == "one").all(0))
        each |= {"unanimous": agree, "disagreeing": ~agree, "certain": sure}
        return {name: float((part.double() * weight).sum()) for name, part in each.items()}


def limit_map(source: Source) -> LimitMap:
    """The exact limit in all directions of a plane, for a source of two inputs.

    The sectors are exact up to float64 rounding of their borders.

    source: a network of two inputs, or a model or predictor of such networks.
    """
    check_no_concentrations(source)
    members = [_of_one(instance) for instance in instances(source)]
    borders = _apart(torch.cat([border for border, _, _ in members]).sort().values)
    middles = (borders[1:] + borders[:-1]) / 2
    limits, kinds = [], []
    for border, limit, kind in members:
        places = (torch.searchsorted(border, middles, right=True) - 1).clamp(0, len(limit) - 1)
        limits.append(limit[places])
        kinds.append(kind[places.numpy()])
    check_classes(limits[0].shape[-1])
    side = ((borders + 1) / 2).floor()  # 2 a side, 0 and 8 at angle 0 and 2 pi
    angles = side * (math.pi / 2) + (borders - 2 * side).atan()
    return _merged(angles, torch.stack(limits), np.stack(kinds))


def _merged(angles: Tensor, limit: Tensor, kind: Any) -> LimitMap:
    """Neighbors with the same limits joined."""
    same = (limit[:, 1:] == limit[:, :-1]).all(-1).all(0)
    same &= torch.as_tensor((kind[:, 1:] == kind[:, :-1]).all(0))
    kept = torch.cat([torch.zeros(1, dtype=torch.long), (~same).nonzero()[:, 0] + 1])
    ends = torch.cat([angles[kept], angles[-1:]])
    return LimitMap(ends, limit[:, kept], kind[:, kept.numpy()])


def _apart(ordered: Tensor) -> Tensor:
    """Ordered places without those that are one up to rounding; the last stays."""
    fresh = torch.cat([torch.ones(1, dtype=torch.bool), ordered.diff() > 8 * CLOSE])
    kept = ordered[fresh]
    kept[-1] = ordered[-1]
    return kept


def _of_one(instance: Instance) -> tuple[Tensor, Tensor, Any]:
    """Borders `(S + 1,)` as places on the square, limits `(S, C)` and kinds `(S,)`."""
    trial = Sectors(*_square(), limit=1 << 30)
    trial.keep(torch.arange(1))
    trial.done = 1 << 30  # cut no more: only to learn how wide the network is
    try:
        instance.run(trial, trial.start())
    except InputShapeError as error:
        raise InputShapeError(f"limit_map needs a network of two inputs ({error})") from None
    found = []
    for block, part in sweep(instance, Sectors(*_square(), limit=limit_for(trial.widest, 3))):
        block.done, block.limit = 0, 1 << 30
        block.envelope(part.coefs[:, :, None])
        coefs = block.current(part).coefs
        found.append((2 * block.side + block.low, *_limit_of(block, coefs)))
    starts = torch.cat([f[0] for f in found])
    order = starts.argsort()
    borders = torch.cat([starts[order], torch.full((1,), 8.0, dtype=torch.float64)])
    return (
        borders,
        torch.cat([f[1] for f in found])[order],
        np.concatenate([f[2] for f in found])[order.numpy()],
    )


def _square() -> tuple[Tensor, Tensor, Tensor]:
    """Side, low and high: the first side is met again at the end, so that angles start at 0."""
    side = torch.arange(5, dtype=torch.float64)
    low = torch.tensor([0.0, -1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    high = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    return side, low, high


def _limit_of(block: "Sectors", coefs: Tensor) -> tuple[Tensor, Any]:
    """Limits and kinds of sectors on each of which one growth is the largest."""
    growth = block.growth(coefs, (block.low + block.high) / 2)
    best = growth.argmax(-1)
    rows = torch.arange(len(best))
    top = (coefs[:2] == coefs[:2, rows, best][:, :, None]).all(0)
    limit = torch.where(top, coefs[2], -math.inf).softmax(-1)
    kind = np.where(top.sum(-1).numpy() == 1, KINDS[0], KINDS[1]).astype("<U9")
    kind[(coefs[:2] == 0).all(0).all(-1).numpy()] = KINDS[2]
    return limit, kind


class Sectors(Cells):
    """Rows are intervals of a side; coefs are `(3, R, *features)`: v in both inputs, a constant."""

    columns = ("side", "low", "high")

    def __init__(self, side: Tensor, low: Tensor, high: Tensor, *, limit: int) -> None:
        super().__init__(limit=limit)
        self.side, self.low, self.high = side, low, high

    def start(self) -> Part:
        maps = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
        return self.made(Part(maps[:, None].repeat(1, len(self), 1)))

    def _on_side(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Growth of lines `(3, R, ...)` as `p * s + q` along the side of each row."""
        center = CENTERS[self.side.long() % 4]
        shape = (-1, *(1 for _ in lines.shape[2:]))
        x, y = (center[:, i].reshape(shape) for i in (0, 1))
        return lines[1] * x - lines[0] * y, lines[0] * x + lines[1] * y

    def growth(self, lines: Tensor, s: Tensor) -> Tensor:
        """Growth of lines `(3, R, ...)` in the direction at s `(R,)` on each row's side."""
        p, q = self._on_side(lines)
        return p * s.reshape(-1, *(1 for _ in lines.shape[2:])) + q

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        growth = self.growth(lines, (self.low + self.high) / 2)
        dead = (lines[0] == 0) & (lines[1] == 0)
        return (growth > 0) | (dead & (lines[2] > 0))

    def _roots(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Where growth is 0 on each row's side, and whether that is inside the sector."""
        p, q = self._on_side(lines)
        low, high = (t.reshape(-1, *(1 for _ in lines.shape[2:])) for t in (self.low, self.high))
        blur = CLOSE * (p.abs() + q.abs())
        first, last = p * low + q, p * high + q
        inside = (first > blur) & (last < -blur) | (first < -blur) & (last > blur)
        return torch.where(inside, -q / torch.where(inside, p, 1.0), 0.0), inside

    def cut(self, lines: Tensor) -> Tensor | None:
        roots, inside = self._roots(lines)
        return self._cut_at(inside.nonzero()[:, 0], roots[inside])

    def cut_largest(self, lines: Tensor) -> Tensor | None:
        p, q = self._on_side(lines)  # (R, U, W)
        found = []
        for i in range(lines.shape[-1]):
            for j in range(i):
                roots, inside = self._roots(lines[..., i] - lines[..., j])
                heights = p * roots[..., None] + q
                blur = CLOSE * (p.abs() + q.abs()).amax(-1)
                winning = inside & (heights[..., i] >= heights.amax(-1) - blur)
                found.append((winning.nonzero()[:, 0], roots[winning]))
        if not found:
            return None
        return self._cut_at(*(torch.cat(column) for column in zip(*found, strict=True)))

    def _cut_at(self, rows: Tensor, places: Tensor) -> Tensor | None:
        """Cut rows at places inside them; what differs by rounding is one place."""
        far = (places - self.low[rows] > CLOSE) & (self.high[rows] - places > CLOSE)
        rows, places = rows[far], places[far]
        if not len(rows):
            return None
        parents = torch.cat([torch.arange(len(self)), rows])
        low = torch.cat([self.low, places])
        order = torch.from_numpy(np.lexsort((low.numpy(), parents.numpy())))
        parents, low = parents[order], low[order]
        fresh = torch.ones(len(low), dtype=torch.bool)
        fresh[1:] = (parents[1:] != parents[:-1]) | (low.diff() > CLOSE)
        parents, low = parents[fresh], low[fresh]
        high = self.high[parents]
        inner = parents[1:] == parents[:-1]
        high[:-1] = torch.where(inner, low[1:], high[:-1])
        self.side, self.low, self.high = self.side[parents], low, high
        return parents
