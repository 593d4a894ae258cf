"""A maze without end whose agent has nine eyes and five actions (Gal, 2016, figure 5.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.applications.exploration.environment import as_actions
from nescio.applications.exploration.maze_world import (
    EYES,
    KINDS,
    RANGE,
    WHEELS,
    World,
    first_world,
)


@dataclass(frozen=True, kw_only=True)
class Maze:
    """An agent with nine eyes and five actions among walls, good and bad items; it never ends.

    An observation has three numbers per eye, for walls, good and bad items: `1 - distance / 85` of
    the nearest thing that the eye sees, if it is of that kind, else 0. Actions turn two wheels:
    straight on, slightly left, slightly right, sharply right, sharply left. The reward of a
    decision is at most 1 for looking away from walls, a tenth more for driving straight on in the
    open, 5 for a good item and -6 for a bad one. The distances and rewards are those of the demo of
    ConvNetJS, on which the experiment was made.

    >>> runs = Maze().start(seeds=[0, 1])
    >>> runs.reset(0).shape
    torch.Size([2, 27])
    >>> observation, reward, ended = runs.step(torch.tensor([0, 3]))

    steps: the number of decisions in an epoch, the counterpart of an episode.
    """

    steps: int = 100
    name = "maze"
    actions = len(WHEELS)
    shape = (len(EYES) * len(KINDS),)
    solved = None
    window = 10
    continuing = True

    def start(self, seeds: Sequence[int]) -> "MazeRuns":
        """One agent for each of the `seeds`, each in its own maze."""
        return MazeRuns(first_world(seeds))


class MazeRuns:
    """S mazes in lockstep."""

    def __init__(self, world: World) -> None:
        self.world = world

    def reset(self, episode: int) -> Tensor:
        """What the agents see; an epoch begins where the last one stopped, epoch 0 at the start."""
        if episode == 0:
            self.world = first_world(self.world.seeds)
        return self._observed()

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What agents see after a decision `(S, 27)`, their rewards `(S,)`; no run ends."""
        runs = len(self.world.seeds)
        chosen = as_actions(actions, runs=runs, count=Maze.actions)
        self.world, rewards = self.world.after(chosen.numpy())
        return self._observed(), torch.from_numpy(rewards), torch.zeros(runs, dtype=torch.bool)

    def _observed(self) -> Tensor:
        far, kind = self.world.seen
        near = np.where(kind[..., None] == KINDS, 1 - far[..., None] / RANGE, 0)  # (S, EYES, KINDS)
        return torch.from_numpy(near.reshape(len(near), -1).astype(np.float32))

    def state(self) -> dict[str, Tensor]:
        """Where everything is, as real tensors."""
        each = {name: torch.from_numpy(getattr(self.world, name)) for name in _ARRAYS}
        return {name: torch.view_as_real(t) if t.is_complex() else t for name, t in each.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        arrays: dict[str, Any] = {name: state[name].numpy().copy() for name in _ARRAYS}
        points = {name: arrays[name].view(complex)[..., 0] for name in ("at", "items")}
        self.world = replace(self.world, **arrays | points)


_ARRAYS = [field.name for field in fields(World) if field.name != "seeds"]
