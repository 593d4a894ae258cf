"""Randomness as a function of names and numbers: (seed, member, epoch, step), never of history.

Every draw has its own generator, seeded from what it is for. So a member trained in a stack draws
what it would draw alone, and a resumed run draws what an uninterrupted one would.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


def derive(*parts: int | str) -> int:
    """A 63-bit seed that depends on all `parts`."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator seeded from all `parts`."""
    return torch.Generator().manual_seed(derive(*parts))


@contextmanager
def seeded(*parts: int | str) -> Iterator[None]:
    """Seed torch's global generator from `parts` for a block, then put it back as it was."""
    before = torch.get_rng_state()
    torch.manual_seed(derive(*parts))
    try:
        yield
    finally:
        torch.set_rng_state(before)


@dataclass(frozen=True)
class Rng:
    """The randomness of one training step: a generator for every member and purpose."""

    seed: int
    members: tuple[int, ...]
    place: tuple[int, ...] = ()

    def at(self, *place: int) -> "Rng":
        """The randomness of another step."""
        return Rng(self.seed, self.members, place)

    def generators(self, purpose: str) -> list[torch.Generator]:
        """One generator a member for `purpose` at this step."""
        return [generator(self.seed, purpose, m, *self.place) for m in self.members]

    def normal(self, shape: Sequence[int], purpose: str, *, like: Tensor) -> Tensor:
        """Standard normal numbers `(M, *shape)`, each member from its own generator."""
        draws = [torch.randn(*shape, generator=g) for g in self.generators(purpose)]
        return torch.stack(draws).to(like)

    def orders(self, points: int) -> Tensor:
        """A random order of the points for each member, `(M, points)`."""
        return torch.stack([torch.randperm(points, generator=g) for g in self.generators("order")])
