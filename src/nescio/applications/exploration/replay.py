"""The transitions that S runs have seen, the last ones of each, to learn from again."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """What was seen, done and gained; any leading axes."""

    seen: Tensor  # (..., *shape) observations
    action: Tensor  # (...) integers
    reward: Tensor  # (...)
    after: Tensor  # (..., *shape) the observations after the action
    ended: Tensor  # (...) whether there is nothing after it
    members: Tensor  # (..., K) which members learn from it


NAMES = tuple(field.name for field in fields(Transitions))


class Replay:
    """The last `capacity` transitions of each run, in a ring."""

    def __init__(self, runs: int, capacity: int) -> None:
        self.runs, self.capacity = runs, capacity
        self.count = torch.zeros(runs, dtype=torch.long)  # seen so far, by run
        self.tensors: dict[str, Tensor] = {}  # (S, capacity, ...)

    def add(self, new: Transitions, real: Tensor) -> None:
        """Store transitions `(S, T, ...)` where `real` `(S, T)`; later ones replace old ones."""
        if not self.tensors:
            self.tensors = {
                name: torch.zeros(self.runs, self.capacity, *part.shape[2:], dtype=part.dtype)
                for name in NAMES
                for part in (getattr(new, name),)
            }
        order = self.count[:, None] + real.cumsum(1) - 1
        latest = real & (order >= order[:, -1:] + 1 - self.capacity)
        run, step = latest.nonzero(as_tuple=True)
        slot = order[run, step] % self.capacity
        for name, tensor in self.tensors.items():
            tensor[run, slot] = getattr(new, name)[run, step]
        self.count += real.sum(1)

    def draw(self, chance: Tensor) -> Transitions:
        """A transition for each number in 0 to 1 of chance `(S, B)`, alike among those stored."""
        filled = self.count.clamp(max=self.capacity)[:, None]
        slot = (chance * filled).long().clamp(max=filled - 1)
        run = torch.arange(self.runs)[:, None]
        return Transitions(**{name: part[run, slot] for name, part in self.tensors.items()})

    def state(self) -> dict[str, Tensor]:
        """What a file holds: what is stored, without the empty end."""
        longest = int(self.count.clamp(max=self.capacity).max())
        stored = {name: part[:, :longest].contiguous() for name, part in self.tensors.items()}
        return {**stored, "count": self.count}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from what a file holds."""
        self.count = state["count"].clone()
        for name in NAMES:
            stored = state[name]
            shape = self.runs, self.capacity, *stored.shape[2:]
            self.tensors[name] = torch.zeros(shape, dtype=stored.dtype)
            self.tensors[name][:, : stored.shape[1]] = stored
