"""Domains whose rows are cells that get cut, in blocks of bounded memory.

A tensor that was made before a cut is brought up to date when it is used again: each cut keeps, for
every new row, the old row it came from. Where cutting gives more rows than `limit`, the first stay
and the others wait: they run through the network again later, from their own start, and are not
cut a second time by the layers that have cut them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from nescio.geometry.tracing.domain import Domain, Part
from nescio.geometry.tracing.instances import Instance

BYTES = 256 << 20  # of the maps of the widest layer of one block of cells


class Cells(Domain):
    """Rows are cells. A subclass cuts them; it holds them in the tensors that `columns` names."""

    columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, limit: int, done: int = 0) -> None:
        super().__init__()
        self.limit = limit
        self.done = done  # so many cuts were made when these cells ran before
        self.cuts = 0
        self.parents: list[Tensor] = []  # by version: the row each row of the next one came from
        self.waiting: list[Cells] = []

    @abstractmethod
    def start(self) -> Part:
        """The inputs of the network over the cells."""

    def __len__(self) -> int:
        """Number of cells."""
        return len(getattr(self, self.columns[0]))

    @abstractmethod
    def cut(self, lines: Tensor) -> Tensor | None:
        """Cut the cells where a line `(K, R, U)` is zero inside; the old row of each new one.

        None: nothing was cut.
        """

    @abstractmethod
    def cut_largest(self, lines: Tensor) -> Tensor | None:
        """Cut the cells where the largest of W lines `(K, R, U, W)` changes, nowhere else."""

    def keep(self, rows: Tensor) -> None:
        """Forget all cells but these."""
        for name in self.columns:
            setattr(self, name, getattr(self, name)[rows])

    def apart(self, rows: Tensor, done: int) -> "Cells":
        """Some of the cells as a separate domain, for a later run."""
        fresh = copy(self)
        Cells.__init__(fresh, limit=self.limit, done=done)
        fresh.keep(rows)
        return fresh

    def refine(self, lines: Tensor) -> None:
        self._cut(self.cut, lines)

    def envelope(self, lines: Tensor) -> None:
        self._cut(self.cut_largest, lines)

    def _cut(self, how: Callable[[Tensor], Tensor | None], lines: Tensor) -> None:
        self.cuts += 1
        parents = how(lines.detach()) if self.cuts > self.done else None
        if parents is None and len(self) <= self.limit:
            return
        if parents is None:
            parents = torch.arange(len(self))
        if len(self) > self.limit:
            for rows in torch.arange(self.limit, len(self)).split(self.limit):
                self.waiting.append(self.apart(rows, max(self.cuts, self.done)))
            kept = torch.arange(self.limit)
            self.keep(kept)
            parents = parents[kept]
        self.parents.append(parents)
        self.version += 1

    def current(self, part: Part) -> Part:
        if part.version == self.version:
            return part
        rows = self.parents[part.version]
        for parents in self.parents[part.version + 1 :]:  # old row of each newer row
            rows = rows[parents]
        return Part(part.coefs[:, rows], self.version, part.error)


C = TypeVar("C", bound=Cells)


def sweep(instance: Instance, cells: C) -> Iterator[tuple[C, Part]]:
    """Run cells through a network, block by block: the cut cells of a block and their logits."""
    waiting: list[C] = [cells]
    while waiting:
        block = waiting.pop()
        yield block, instance.run(block, block.start())
        waiting.extend(reversed(block.waiting))  # type: ignore[arg-type]


def limit_for(widest: int, columns: int, budget: int = BYTES) -> int:
    """How many cells one block may have, given the features of the widest layer."""
    return max(16, budget // (8 * columns * max(1, widest)))
