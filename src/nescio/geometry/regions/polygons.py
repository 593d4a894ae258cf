"""Rows are convex polygons of a plane, cut until a network is affine on each.

Only lines that cross a polygon cut it. Every polygon keeps the list of the lines that still cross
it; all polygons with a list are cut by one of their lines at once, and the two halves are tested
against what remains. That visits few pairs of a polygon and a line that do not meet.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.geometry.regions.arrangement import Store, quadrants
from nescio.geometry.regions.cells import Cells
from nescio.geometry.regions.convex import Bools, Floats, Ints, Normals, box_corners
from nescio.geometry.tracing.domain import Bend, Part, is_relu
from nescio.geometry.tracing.instances import blocks

ROOM = 8  # a block starts with so few of the cells it may have: a layer multiplies them
CHUNK = 1 << 16  # pairs of a polygon and a line that are looked at together


class Polygons(Cells):
    """Convex polygons of a plane `x = origin + u basis[0] + v basis[1]`; coefs of u, v and 1."""

    def __init__(
        self,
        origin: Tensor,
        basis: Tensor,
        box: Floats | None = None,  # [[left, bottom], [right, top]]; None: the whole plane
        *,
        limit: int,
        done: int = 0,
        store: Store | None = None,
        seam: bool = False,
    ) -> None:
        super().__init__(limit=limit, done=done)
        self.origin, self.basis, self.box, self.seam = origin, basis, box, seam
        self.plain = True  # a chain of affine layers and one-bend activations
        self.rectified = True  # and all of these are ReLU
        if store is None and box is not None:
            store = Store(box_corners(*box), np.array([4]), np.abs(box).max(0))
        self.store = store  # None: one row, the whole plane
        self.normals = Normals.none(len(self))
        self._middle: tuple[Floats, Floats] | None = None
        self._border: Ints | None = None
        self._pooled = False

    @property
    def limit(self) -> int:
        """How many cells stay in a block; of too many only a few, which have room to grow."""
        return self._most if len(self) <= self._most else max(1, self._most // ROOM)

    @limit.setter
    def limit(self, most: int) -> None:
        self._most = most

    def start(self) -> Part:
        inputs = torch.stack([*self.basis, self.origin])[:, None]
        return self.made(Part(inputs.expand(3, len(self), *self.origin.shape)))

    def __len__(self) -> int:
        return 1 if self.store is None else len(self.store.counts)

    def keep(self, rows: Tensor) -> None:
        if self.store is not None:
            self._replaced(self.store[rows.numpy()], rows.numpy())

    def apart(self, rows: Tensor, done: int) -> "Polygons":
        store = None if self.store is None else self.store[rows.numpy()]
        plane = self.origin, self.basis, self.box
        return Polygons(*plane, limit=self._most, done=done, store=store, seam=self.seam)

    def _replaced(self, store: Store, parents: Ints | None) -> Tensor | None:
        if parents is None:
            return None
        self.store, self._middle, self._border = store, None, None
        self.normals = self.normals[parents]
        return torch.from_numpy(parents)

    def middle(self) -> tuple[Floats, Floats]:
        """The middle of the range of the corners and half its size, `(3, R)` each."""
        if self.store is None:
            return np.array([[0.0], [0.0], [1.0]]), np.ones((3, 1))
        if self._middle is None:
            self._middle = self.store.middle()
        return self._middle

    def above(self, lines: Tensor, error: Any = None) -> Tensor:  # noqa: ARG002
        """The sign at a point inside each polygon."""
        inner = torch.from_numpy(
            self.store.inside() if self.store is not None else self.middle()[0]
        )
        h0, h1, h2 = lines
        value = h0 * inner[0, :, None]
        value.addcmul_(h1, inner[1, :, None])
        if self.box is not None:
            value.add_(h2)
        else:
            value.addcmul_(h2, inner[2, :, None])
        positive: Tensor = value > 0
        if self.box is not None and not self._pooled:
            self._narrow(h0, h1, positive)
        return positive

    def _narrow(self, h0: Tensor, h1: Tensor, positive: Tensor) -> None:
        """Take the half-planes of the units into account for polygons at the border of the box."""
        rows = self.border()
        if len(rows) == 0:
            return
        at = torch.from_numpy(rows)
        sign = torch.where(positive[at], 1.0, -1.0)
        self.normals = self.normals.joined(rows, (h0[at] * sign).numpy(), (h1[at] * sign).numpy())

    def border(self) -> Ints:
        """Polygons that touch the border of the box and are not known to be bounded."""
        if self.store is None or self.box is None:
            return np.zeros(0, dtype=np.int64)
        if self._border is None:
            self._border = self.store.touching(self.box)
        still: Bools = ~self.normals.bounded[self._border]
        return self._border[still]

    def cut(self, lines: Tensor) -> Tensor | None:
        if self.store is None:
            store, seam = quadrants(lines[:, 0].numpy())
            if store is None:
                return None
            lines = lines.expand(-1, len(store.counts), -1)
            self.seam = self.seam or seam
            self._replaced(store, np.zeros(len(store.counts), dtype=np.int64))
            self.cut(lines)
            return torch.zeros(len(self), dtype=torch.long)
        rows, units = self._near(lines)
        if len(rows) == 0:
            return None
        pairs = lines.flatten(1)[:, rows * lines.shape[2] + units].numpy()
        return self._replaced(*self.store.cut(rows.numpy(), pairs))

    def _near(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs of a polygon and a line that may meet, from the ranges of the corners."""
        center, size = (torch.from_numpy(part)[..., None] for part in self.middle())
        found = []
        for rows in blocks(len(self), CHUNK // lines.shape[2]):
            value, room = _ranges(lines[:, rows], center[:, rows], size[:, rows], self.box is None)
            found.append((value.abs_() < room).nonzero())
            found[-1][:, 0] += rows.start
        return torch.cat(found).unbind(1)  # type: ignore[return-value]

    def cut_largest(self, lines: Tensor) -> Tensor | None:
        if self.store is None:
            return self._whole_largest(lines)
        rows, windows = self._undecided(lines)
        if len(rows) == 0:
            return None
        flat = lines.flatten(1, 2)[:, rows * lines.shape[2] + windows].numpy()  # (3, n, W)
        return self._replaced(*self.store.cut_largest(rows.numpy(), flat))

    def _whole_largest(self, lines: Tensor) -> Tensor | None:
        """The whole plane is first cut in four by two lines that are not bends: a seam."""
        gaps = (lines[:, 0, :, 1:] - lines[:, 0, :, :1]).flatten(1)
        store, _ = quadrants(gaps.numpy())
        if store is None:
            return None
        self.seam = True
        self._replaced(store, np.zeros(len(store.counts), dtype=np.int64))
        self.cut_largest(lines.expand(-1, len(store.counts), -1, -1))
        return torch.zeros(len(self), dtype=torch.long)

    def _undecided(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs of a polygon and a window with no member that must be largest on all of it."""
        center, size = (torch.from_numpy(part)[..., None, None] for part in self.middle())
        found = []
        for rows in blocks(len(self), CHUNK // (lines.shape[2] * lines.shape[3])):
            gaps = _gaps(lines[:, rows], center[:, rows])
            ahead, room = _ranges(gaps, center[:, rows], size[:, rows], True)
            found.append((ahead < room).any(-1).nonzero())
            found[-1][:, 0] += rows.start
        return torch.cat(found).unbind(1)  # type: ignore[return-value]

    def refine(self, lines: Tensor) -> None:
        super().refine(lines)
        self._pooled = False

    def envelope(self, lines: Tensor) -> None:
        before = self.version
        super().envelope(lines)
        self._pooled = True  # the comparisons that follow are also between members that lose
        rows = self.border()
        if len(rows) == 0:
            return
        old = self.parents[-1][rows] if self.version != before else torch.from_numpy(rows)
        assert self.store is not None
        inner = torch.from_numpy(self.store.inside()[:, rows])[..., None, None]
        x, y, _ = _gaps(lines[:, old], inner).flatten(2).numpy()
        self.normals = self.normals.joined(rows, x, y)

    def bend(self, part: Part, bend: Bend) -> Part:
        self.plain &= len(bend.points) == 1
        self.rectified &= is_relu(bend)
        return super().bend(part, bend)

    def add(self, first: Part, second: Part) -> Part:
        self.plain = False
        return super().add(first, second)

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        self.plain = False
        return super().join(parts, dim)

    def largest(self, parts: Sequence[Part]) -> Part:
        self.plain = False
        return super().largest(parts)


def _gaps(lines: Tensor, at: Tensor) -> Tensor:
    """How far the largest of W lines `(3, R, U, W)` at a point of each row is above each."""
    best = (lines * at).sum(0).argmax(-1, keepdim=True)
    return lines.gather(3, best.expand(3, -1, -1, -1)) - lines


def _ranges(
    lines: Tensor, center: Tensor, size: Tensor, homogeneous: bool
) -> tuple[Tensor, Tensor]:
    """The value of lines at the center of a range, and how far from it they can get inside."""
    value = lines[0] * center[0]
    value.addcmul_(lines[1], center[1])
    room = lines[0].abs().mul_(size[0])
    room.addcmul_(lines[1].abs(), size[1])
    if homogeneous:
        value.addcmul_(lines[2], center[2])
        room.addcmul_(lines[2].abs(), size[2])
    else:
        value.add_(lines[2])
    return value, room
