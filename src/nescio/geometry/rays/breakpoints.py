"""Every breakpoint of a network on a ray, and its affine logits in between."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.rays.far_field import widest_layer
from nescio.geometry.regions.cells import Cells, limit_for, sweep
from nescio.geometry.tracing.domain import Deferred, Part
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_number,
    as_rays,
    blocks,
    instances,
)
from nescio.models import Predictor

Pair = tuple[Tensor, Tensor]
BYTES = 64 << 20  # of the maps of the widest layer of one block of intervals


@dataclass(frozen=True, eq=False, kw_only=True)
class Rays:
    """Logits along N rays: on region s they are `slope[s] * t + intercept[s]` from `starts[s]` on.

    The regions of ray i are `offsets[i] : offsets[i + 1]`; the first starts at 0.

    offsets: where the regions of each ray begin in the other arrays, `(N + 1,)`.
    starts: factor t at which each region begins, `(S,)`.
    slope, intercept: of the logits on each region, `(S, C)`.
    stop: largest factor that the rays were followed to.
    """

    offsets: Tensor
    starts: Tensor
    slope: Tensor
    intercept: Tensor
    stop: float = math.inf

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def regions(self, i: int) -> slice:
        """Where the regions of ray number `i` are in the flat arrays."""
        if not -len(self) <= i < len(self):
            raise NescioError(f"ray {i} of {len(self)}; rays are counted from 0")
        i = i % len(self)
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def breakpoints(self, i: int) -> Tensor:
        """The factors at which the logits of ray number `i` bend, in order."""
        return self.starts[self.regions(i)][1:]

    def logits(self, i: int, t: Any) -> Tensor:
        """Logits `(..., C)` of ray number `i` at factors `t` of any shape."""
        t = torch.as_tensor(t, dtype=torch.float64)
        starts = self.starts[self.regions(i)]
        self._check(t)
        index = torch.searchsorted(starts, t.contiguous(), right=True) - 1 + self.regions(i).start
        return torch.addcmul(self.intercept[index], self.slope[index], t[..., None])

    def at(self, t: Any) -> Tensor:
        """Logits of all rays at some factors, `(N, C)`.

        t: a factor, or one per ray `(N,)`; `(N, T)` factors give logits `(N, T, C)`.
        """
        t = torch.as_tensor(t, dtype=torch.float64)
        t = t.expand(len(self)) if t.ndim == 0 else t
        if t.ndim > 2 or len(t) != len(self):
            raise NescioError(
                f"factors must be one number, (rays,) or (rays, T) for {len(self)} rays, "
                f"got {tuple(t.shape)}"
            )
        self._check(t)
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        if t.ndim == 2:
            first, last = first[:, None].expand(t.shape), last[:, None].expand(t.shape)
        while (first < last).any():  # bisection for the last start that is not beyond t
            middle = (first + last + 1) // 2
            right = self.starts[middle] <= t
            first, last = torch.where(right, middle, first), torch.where(right, last, middle - 1)
        return torch.addcmul(self.intercept[first], self.slope[first], t[..., None])

    def _check(self, t: Tensor) -> None:
        if not ((t >= 0) & (t <= self.stop)).all():
            raise NescioError(f"factors must lie between 0 and {self.stop:g}, where the rays end")


@overload
def ray(source: nn.Module, origin: Any, direction: Any, *, stop: float | None = None) -> Rays: ...


@overload
def ray(
    source: Predictor, origin: Any, direction: Any, *, stop: float | None = None
) -> tuple[Rays, ...]: ...


def ray(
    source: Source, origin: Any, direction: Any, *, stop: float | None = None
) -> Rays | tuple[Rays, ...]:
    """All breakpoints and affine logits along `origin + t * direction`, for t from 0 to `stop`.

    source: a network, or a model or predictor of nescio, which gives one result per member.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    stop: the largest t; None: the rays have no end.
    """
    start, way = as_rays(origin, direction)
    stop = math.inf if stop is None else as_number(stop, "stop")
    if not stop > 0:
        raise NescioError(f"stop must be above 0, got {stop}; rays start at 0")
    found = tuple(_of_one(instance, start, way, float(stop)) for instance in instances(source))
    return found[0] if isinstance(source, nn.Module) else found


def _of_one(instance: Instance, origin: Tensor, direction: Tensor, stop: float) -> Rays:
    count = len(origin)
    rows = torch.arange(count)
    lo = torch.zeros(count, dtype=torch.float64)
    index, starts, _, slope, intercept = regions_on(
        instance, (origin, direction), rows, lo, lo + stop, limit=room(instance, origin, direction)
    )
    offsets = torch.zeros(count + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(index, minlength=count).cumsum(0)
    return Rays(offsets=offsets, starts=starts, slope=slope, intercept=intercept, stop=stop)


def room(instance: Instance, origin: Tensor, direction: Tensor) -> int:
    """How many intervals one block may have: by the widest layer of a trial pass."""
    return limit_for(widest_layer(instance, origin[:1], direction[:1]), 2, BYTES)


def regions_on(
    instance: Instance, rays: Pair, index: Tensor, lo: Tensor, hi: Tensor, *, limit: int
) -> tuple[Tensor, ...]:
    """Linear regions on intervals of rays: interval, start, end, slope and intercept, in order.

    rays: origins and directions `(N, *features)`. index: (R,) the ray of each interval.
    """
    origin, direction = rays[0][index], rays[1][index]
    found = []
    for rows in blocks(len(lo), limit):
        ray = torch.arange(rows.start, rows.stop)
        cells = Intervals(origin, direction, ray, lo[rows], hi[rows], limit=limit)
        for block, logits in sweep(instance, cells):
            found.append((block.ray, block.lo, block.hi, *logits.coefs))
    row, starts, ends, slope, intercept = (torch.cat([f[i] for f in found]) for i in range(5))
    order = starts.argsort()
    order = order[row[order].argsort(stable=True)]
    return row[order], starts[order], ends[order], slope[order], intercept[order]


CLOSE = 8 * 2.0**-52  # relative distance at which two breakpoints are one
CHUNK = 1 << 20  # lines looked at in one go


class Intervals(Deferred, Cells):
    """Rows are intervals `[lo, hi]` of the rays `origin + t * direction`; hi may be infinite.

    A unit cuts an interval at its root `-q / p`. Roots closer than a few roundings are one
    breakpoint. Signs are read in the middle of an interval, and on an unbounded one at infinity:
    never at a root.
    """

    columns = ("ray", "lo", "hi")

    def __init__(
        self, origin: Tensor, direction: Tensor, ray: Tensor, lo: Tensor, hi: Tensor, *, limit: int
    ) -> None:
        super().__init__(limit=limit)
        self.origin, self.direction = origin, direction  # (N, *features)
        self.ray, self.lo, self.hi = ray, lo, hi  # (R,)

    def start(self) -> Part:
        coefs = torch.stack([self.direction[self.ray], self.origin[self.ray]])
        return self.made(Part(coefs, self.version))

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        """The sign in the middle; on an unbounded interval that at infinity."""
        p, q = lines
        endless = self.hi.isinf()
        if not endless.any():
            return torch.addcmul(q, p, ((self.lo + self.hi) / 2)[:, None]) > 0
        middle = torch.where(endless, 0.0, (self.lo + self.hi) / 2)
        inside = torch.addcmul(q, p, middle[:, None]) > 0
        return torch.where(endless[:, None], (p > 0) | ((p == 0) & (q > 0)), inside)

    def cut(self, lines: Tensor) -> Tensor | None:
        return self._cut_by(self._roots, lines)

    def _roots(self, lines: Tensor, rows: slice) -> Pair:
        """Rows and roots that lie inside their rows."""
        p, q = lines
        roots = q / -p  # not a number or infinite where p is 0: never inside
        inside = (roots > self.lo[rows, None]) & (roots < self.hi[rows, None])
        row, unit = inside.nonzero(as_tuple=True)
        return row + rows.start, roots[row, unit]

    def cut_largest(self, lines: Tensor) -> Tensor | None:
        return self._cut_by(self._changes, lines)

    def _cut_by(self, how: Callable[[Tensor, slice], Pair], lines: Tensor) -> Tensor | None:
        """Cut where `how` finds rows and roots, looking at some of the rows at a time."""
        step = max(1, CHUNK // max(1, lines.shape[2:].numel()))
        found = [how(lines[:, rows], rows) for rows in blocks(len(self), step)]
        return self._cut_at(*(torch.cat(column) for column in zip(*found, strict=True)))

    def _changes(self, lines: Tensor, rows: slice) -> Pair:
        """Rows, and where inside them the largest line of a window, a convex function, changes."""
        p, q = lines  # (R, U, W)
        lo, hi = self.lo[rows, None, None], self.hi[rows, None, None]
        at_start = torch.addcmul(q, p, lo)
        top = at_start == at_start.amax(-1, keepdim=True)  # of equals the steepest wins
        winner = torch.where(top, p, -torch.inf).argmax(-1, keepdim=True)  # (R, U, 1)
        p_best, q_best = p.gather(2, winner), q.gather(2, winner)
        gain, lag = p - p_best, q_best - q
        steeper = gain > 0
        overtaken = steeper & (torch.where(steeper, lag / gain, torch.inf) < hi)
        row, unit = overtaken.any(2).nonzero(as_tuple=True)
        found_rows, found = [row[:0]], [self.lo[:0]]
        p, q, at = p[row, unit], q[row, unit], winner[row, unit]  # (A, W), (A, 1)
        low, end = self.lo[rows][row], self.hi[rows][row]
        while len(row):
            gain = p - p.gather(1, at)  # the next change: the first crossing with a steeper line
            cross = torch.where(gain > 0, (q.gather(1, at) - q) / gain, torch.inf)
            where = cross.amin(1)
            at = torch.where(cross <= where[:, None], p, -torch.inf).argmax(1, keepdim=True)
            inside = (where > low) & (where < end)
            found_rows.append(row[inside] + rows.start)
            found.append(where[inside])
            on = where < end
            row, p, q, at, low, end = row[on], p[on], q[on], at[on], low[on], end[on]
        return torch.cat(found_rows), torch.cat(found)

    def _cut_at(self, rows: Tensor, roots: Tensor) -> Tensor | None:
        """Cut rows at points inside them, all at once; points that are close count once."""
        gap = CLOSE * roots.abs()
        kept = (roots - self.lo[rows] > gap) & (self.hi[rows] - roots > gap)
        rows, roots = rows[kept], roots[kept]
        if not len(rows):
            return None
        order = roots.argsort()
        order = order[rows[order].argsort(stable=True)]
        rows, roots = rows[order], roots[order]
        apart = torch.ones(len(rows), dtype=torch.bool)
        apart[1:] = (rows[1:] != rows[:-1]) | (roots.diff() > CLOSE * roots[1:].abs())
        rows, roots = rows[apart], roots[apart]
        counts = torch.bincount(rows, minlength=len(self)) + 1
        parents = torch.arange(len(self)).repeat_interleave(counts)
        places = torch.arange(len(rows)) + rows + 1  # of each root among the new starts
        lo = self.lo[parents]
        lo[places] = roots
        hi = self.hi[parents]
        hi[places - 1] = roots
        self.ray, self.lo, self.hi = self.ray[parents], lo, hi
        return parents
