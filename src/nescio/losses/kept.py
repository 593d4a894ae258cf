"""Perturbations that a loss keeps between steps: a byte a number, in the memory of the run."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.errors import NescioError
from nescio.losses.loss import Batch
from nescio.randomness import Rng, generator

LEVELS = 127  # from 0 to the radius
BYTES = 4 << 30  # at most


@dataclass(frozen=True, eq=False)
class Kept:
    """The perturbations of a pool of inputs, in multiples of radius / 127."""

    levels: Tensor  # (M, P, ...) int8
    radius: float

    def recall(self, place: Tensor) -> Tensor:
        """The perturbations of the inputs at `place` (M, B) in the pool."""
        return self.levels[self._rows(place)] * (self.radius / LEVELS)

    def store(self, place: Tensor, moves: Tensor) -> None:
        """Keep the perturbations of the inputs at `place` (M, B), rounded."""
        levels = (moves * (LEVELS / self.radius)).round_().clamp_(-LEVELS, LEVELS)
        self.levels[self._rows(place)] = levels.to(torch.int8)

    def _rows(self, place: Tensor) -> tuple[Tensor, Tensor]:
        place = place.to(self.levels.device)
        return torch.arange(len(place), device=place.device)[:, None], place


def kept(batch: Batch, rng: Rng, name: str, size: int, radius: float) -> Kept:
    """What the run keeps under `name` for `size` inputs; random in the cube at first."""
    if name not in batch.memory:
        shape = (size, *batch.x.shape[2:])
        needed = len(rng.members) * math.prod(shape)
        if needed > BYTES:
            raise NescioError(
                f"the kept perturbations need {needed / 2**30:.1f} GB; use a smaller pool, fewer "
                "members at a time, or keep=False"
            )
        batch.memory[name] = torch.empty(
            len(rng.members), *shape, dtype=torch.int8, device=batch.x.device
        )
        for member, own in zip(rng.members, batch.memory[name], strict=True):
            source = generator(rng.seed, "kept", member)
            own.copy_(torch.randint(-LEVELS, LEVELS + 1, shape, generator=source, dtype=torch.int8))
    return Kept(batch.memory[name], radius)
