"""Rows are intervals of rays: on each, every unit of the network is one line `p * t + q`.

A unit cuts an interval at its root `-q / p`. Roots closer than a few roundings are one breakpoint.
Signs are read in the middle of an interval, and on an unbounded one at infinity: never at a root.
"""

from typing import Any

import torch
from torch import Tensor

from nescio.geometry.regions.cells import Cells
from nescio.geometry.tracing.deferred import Deferred
from nescio.geometry.tracing.domain import Part

CLOSE = 8 * 2.0**-52  # relative distance at which two breakpoints are one
CHUNK = 1 << 20  # lines looked at in one go


class Intervals(Deferred, Cells):
    """Intervals `[lo, hi]` of the rays `origin + t * direction`; hi may be infinite."""

    def __init__(
        self,
        origin: Tensor,
        direction: Tensor,
        ray: Tensor,
        lo: Tensor,
        hi: Tensor,
        *,
        limit: int,
        done: int = 0,
    ) -> None:
        super().__init__(limit=limit, done=done)
        self.origin, self.direction = origin, direction  # (N, *features)
        self.ray, self.lo, self.hi = ray, lo, hi  # (R,)

    def start(self) -> Part:
        coefs = torch.stack([self.direction[self.ray], self.origin[self.ray]])
        return self.made(Part(coefs, self.version))

    def __len__(self) -> int:
        return len(self.ray)

    def keep(self, rows: Tensor) -> None:
        self.ray, self.lo, self.hi = self.ray[rows], self.lo[rows], self.hi[rows]

    def apart(self, rows: Tensor, done: int) -> "Intervals":
        return Intervals(
            self.origin,
            self.direction,
            self.ray[rows],
            self.lo[rows],
            self.hi[rows],
            limit=self.limit,
            done=done,
        )

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
        found = [
            self._roots(lines[:, i : i + step], i)
            for step in [max(1, CHUNK // max(1, lines.shape[2]))]
            for i in range(0, len(self), step)
        ]
        return self._cut_at(torch.cat([f[0] for f in found]), torch.cat([f[1] for f in found]))

    def _roots(self, lines: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Rows and roots that lie inside their rows."""
        p, q = lines
        rows = slice(first, first + len(p))
        roots = q / -p  # not a number or infinite where p is 0: never inside
        inside = (roots > self.lo[rows, None]) & (roots < self.hi[rows, None])
        row, unit = inside.nonzero(as_tuple=True)
        return row + first, roots[row, unit]

    def cut_largest(self, lines: Tensor) -> Tensor | None:
        count = max(1, lines.shape[2] * lines.shape[3])
        found = [
            self._changes(lines[:, i : i + step], i)
            for step in [max(1, CHUNK // count)]
            for i in range(0, len(self), step)
        ]
        return self._cut_at(torch.cat([f[0] for f in found]), torch.cat([f[1] for f in found]))

    def _changes(self, lines: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Rows, and where the largest line of a window changes inside them.

        The largest of lines is convex: whichever is largest at both ends is so in between. From
        the left, each change is the first crossing of the largest line with a steeper one.
        """
        p, q = lines  # (R, U, W)
        rows = slice(first, first + len(p))
        lo, hi = self.lo[rows, None, None], self.hi[rows, None, None]
        winner = _first_largest(torch.addcmul(q, p, lo), p)  # (R, U, 1)
        p_best, q_best = p.gather(2, winner), q.gather(2, winner)
        gain, lag = p - p_best, q_best - q
        steeper = gain > 0
        overtaken = steeper & (torch.where(steeper, lag / gain, torch.inf) < hi)
        row, unit = overtaken.any(2).nonzero(as_tuple=True)
        found_rows, found = [row[:0]], [self.lo[:0]]
        p, q, at = p[row, unit], q[row, unit], winner[row, unit]  # (A, W), (A, 1)
        low, end = self.lo[rows][row], self.hi[rows][row]
        while len(row):
            gain = p - p.gather(1, at)
            cross = torch.where(gain > 0, (q.gather(1, at) - q) / gain, torch.inf)
            where = cross.amin(1)
            at = torch.where(cross <= where[:, None], p, -torch.inf).argmax(1, keepdim=True)
            inside = (where > low) & (where < end)
            found_rows.append(row[inside] + first)
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


def _first_largest(values: Tensor, slopes: Tensor) -> Tensor:
    """The place of the largest value along the last axis, of equals the steepest."""
    top = values == values.amax(-1, keepdim=True)
    return torch.where(top, slopes, -torch.inf).argmax(-1, keepdim=True)
