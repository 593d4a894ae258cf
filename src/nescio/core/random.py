"""Randomness as a function of names and numbers: (seed, member, epoch, step), never of history.

Every draw has its own generator, seeded from what it is for. So a member trained in a stack draws
what it would draw alone, and a resumed run draws what an uninterrupted one would.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import RLock

import torch
from torch import Tensor

from nescio.core.tensors import padded


def derive(*parts: int | str) -> int:
    """A 63-bit seed that depends on all `parts`."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator seeded from all `parts`."""
    return torch.Generator().manual_seed(derive(*parts))


_seeding = RLock()


@contextmanager
def seeded(*parts: int | str) -> Iterator[None]:
    """Seed torch's global generator from `parts` for a block, then put it back as it was.

    One thread at a time: there is one generator for all.
    """
    with _seeding, torch.random.fork_rng():
        torch.manual_seed(derive(*parts))
        yield


_current: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def drawing_from(source: torch.Generator) -> Iterator[None]:
    """Let layers that draw noise take it from `source` for a block."""
    token = _current.set(source)
    try:
        yield
    finally:
        _current.reset(token)


def layer_noise(shape: Sequence[int], like: Tensor) -> Tensor:
    """Standard normal noise for a layer: from `drawing_from`, else from the global generator."""
    return torch.randn(tuple(shape), generator=_current.get(), dtype=torch.float32).to(like)


@dataclass(frozen=True)
class Rng:
    """The randomness of one training step: a generator for every member and purpose."""

    seed: int
    members: tuple[int, ...]
    place: tuple[int | str, ...] = ()

    def at(self, *place: int) -> "Rng":
        """The randomness of another step."""
        return Rng(self.seed, self.members, place)

    def again(self, name: str) -> "Rng":
        """Other randomness of the same step, a function of `name` too."""
        return Rng(self.seed, self.members, (*self.place, repr(name)))

    def of(self, part: slice) -> "Rng":
        """The randomness of some members."""
        return Rng(self.seed, self.members[part], self.place)

    def generators(self, purpose: str) -> list[torch.Generator]:
        """One generator a member for `purpose` at this step."""
        return [generator(self.seed, purpose, m, *self.place) for m in self.members]

    def normal(self, shape: Sequence[int], purpose: str, *, like: Tensor) -> Tensor:
        """Standard normal numbers `(M, *shape)`, each member from its own generator."""
        draws = [torch.randn(*shape, generator=g) for g in self.generators(purpose)]
        return torch.stack(draws).to(like)

    def choices(self, points: int | Sequence[int]) -> Tensor:
        """Points drawn with replacement for each member, `(M, points)`: a bootstrap sample.

        points: their number, or the number of each member; shorter samples end in zeros.
        """
        each = zip(self._counts(points), self.generators("choice"), strict=True)
        return padded([torch.randint(n, (n,), generator=g) for n, g in each])

    def orders(self, points: int | Sequence[int]) -> Tensor:
        """A random order of the points for each member, `(M, points)`; as in `choices`."""
        each = zip(self._counts(points), self.generators("order"), strict=True)
        return padded([torch.randperm(n, generator=g) for n, g in each])

    def _counts(self, points: int | Sequence[int]) -> Sequence[int]:
        return [points] * len(self.members) if isinstance(points, int) else points
