"""Who learns faster: agents that explore in different ways, on the same worlds and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.applications.exploration import (
    Agent,
    Bandit,
    Chain,
    Environment,
    Maze,
    Rewards,
    cart_pole,
    dropout,
    ensemble,
    epsilon_greedy,
    learn,
    learner,
    mountain_car,
)
from nescio.core import load_tensors, save_tensors
from nescio_papers.kit import Settings, folder_of, full_and_quick, size, slug

PART, LOOK = "exploration", "values of states"
ENSEMBLE, DROPOUT, GREEDY = "ensemble", "dropout", "epsilon-greedy"
SLOW, ALONE = "epsilon-greedy, slow", "dropout, no burn-in"
BURN_IN = 25  # batches, as in the source; random actions fade over them
Looks = dict[int, tuple[Tensor, Tensor]]  # by episodes: values (K, N, A), observations


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    seeds: int = size(10, quick=2)
    pulls: int = size(500, quick=3)
    chain: int = size(2000, quick=3)
    maze: int = size(200, quick=3)
    poles: int = size(70, quick=2)
    cars: int = size(120, quick=2)
    looks: Mapping[str, Sequence[int]] = size(
        {"chain": (20, 200, 800), "mountain_car": (5, 30, 120)},
        quick={"chain": (1, 2), "mountain_car": (1, 2)},
    )
    longest: int | None = size(None, quick=20)  # steps of an episode


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True, kw_only=True)
class Race:
    """Agents that learn in the same world for the same number of episodes.

    goal: a mean reward of `window` episodes, whose time is measured.
    """

    name: str
    environment: Environment
    agents: Mapping[str, Agent]
    episodes: int
    seeds: tuple[int, ...]
    goal: float | None
    window: int
    learning: Mapping[str, Any] = field(default_factory=dict)

    def learned(self, settings: Settings, agent: str, episodes: int | None = None) -> Rewards:
        """The rewards of an agent; what was learned before in the same folder is not again."""
        found = learn(
            self.environment,
            self.agents[agent],
            episodes=episodes or self.episodes,
            seeds=self.seeds,
            seed=settings.seed,
            run=self.folder(settings, agent),
            progress=False,
            **self.learning,
        )
        if not self.environment.continuing:
            return found
        return replace(found, rewards=found.rewards / self.environment.steps)

    def folder(self, settings: Settings, agent: str) -> Path:
        """Where an agent's state is."""
        return folder_of(settings, PART) / f"{slug(self.name)}-{slug(agent)}"

    def looked(self, settings: Settings, agent: str, x: Tensor, stages: Sequence[int]) -> Looks:
        """Q of all members of the first run at observations, after some numbers of episodes."""
        found: Looks = {}
        for stage in stages:
            path = self.folder(settings, agent) / f"values-{stage}.safetensors"
            if not path.exists():
                self.learned(settings, agent, stage)
                save_tensors(path, self._values(settings, agent, x), {"kind": LOOK})
            tensors, _ = load_tensors(path, LOOK)
            found[int(tensors["episodes"])] = (tensors["values"], tensors["visited"])
        return found

    def _values(self, settings: Settings, agent: str, x: Tensor) -> dict[str, Tensor]:
        state = learner(
            self.environment,
            self.agents[agent],
            seeds=self.seeds,
            seed=settings.seed,
            run=self.folder(settings, agent),
            **self.learning,
        )
        stored = int(state.replay.count[0].clamp(max=state.rule.capacity))
        return {
            "values": state.values(x)[0].contiguous(),
            "visited": state.replay.tensors["seen"][0, :stored].contiguous(),
            "episodes": torch.tensor(len(state.rewards)),
        }


def races(settings: Settings) -> dict[str, Race]:
    """All worlds, from a bandit to a car, by name."""
    sizes = budget(settings)
    seeds = tuple(range(10, 10 + sizes.seeds))  # options were chosen on others
    every = (
        _bandit(sizes, seeds),
        _chain(sizes),
        _maze(sizes, seeds),
        _cart_pole(sizes, seeds),
        _mountain_car(sizes, seeds),
    )
    return {race.name: race for race in every}


def _bandit(sizes: Budget, seeds: tuple[int, ...]) -> Race:
    return Race(
        name="bandit",
        environment=Bandit(actions=10),
        agents={ENSEMBLE: ensemble(), DROPOUT: dropout(), GREEDY: epsilon_greedy(decay=50)},
        episodes=sizes.pulls,
        seeds=seeds,
        goal=None,
        window=50,
        learning={"updates": 2, "widths": (32,), "learning_rate": 0.01},
    )


def _chain(sizes: Budget) -> Race:
    chain = Chain(length=20)
    return Race(
        name="chain",
        environment=chain,
        agents={ENSEMBLE: ensemble(), DROPOUT: dropout(), GREEDY: epsilon_greedy()},
        episodes=sizes.chain,
        seeds=tuple(range(sizes.seeds)),
        goal=chain.solved,
        window=chain.window,
        learning={"updates": 15, "widths": (32,)},
    )


def _maze(sizes: Budget, seeds: tuple[int, ...]) -> Race:
    """Batches of 40 decisions: then a burn-in of 25 is that of 1,000 decisions in the demo."""
    burning = {ENSEMBLE: ensemble(members=5), DROPOUT: dropout(rate=0.1)}
    return Race(
        name="maze",
        environment=Maze(steps=sizes.longest or 40),
        agents={name: replace(agent, decay=BURN_IN) for name, agent in burning.items()}
        | {
            GREEDY: epsilon_greedy(decay=BURN_IN),
            SLOW: epsilon_greedy(decay=8 * BURN_IN),
            ALONE: dropout(rate=0.1),
        },
        episodes=sizes.maze,
        seeds=seeds,
        goal=1 + 1e-7,  # above 1: an agent that turns on the spot in the open has exactly 1
        window=10,
        learning={"updates": 20, "batch_size": 64, "discount": 0.7},
    )


def _cart_pole(sizes: Budget, seeds: tuple[int, ...]) -> Race:
    burning = {ENSEMBLE: ensemble(members=5), DROPOUT: dropout()}
    return Race(
        name="cart_pole",
        environment=_shorter(cart_pole(), sizes),
        agents={name: replace(agent, decay=BURN_IN) for name, agent in burning.items()}
        | {GREEDY: epsilon_greedy(decay=BURN_IN)},
        episodes=sizes.poles,
        seeds=seeds,
        goal=100.0,
        window=10,
        learning={"updates": 40},
    )


def _mountain_car(sizes: Budget, seeds: tuple[int, ...]) -> Race:
    return Race(
        name="mountain_car",
        environment=_shorter(mountain_car(), sizes),
        agents={
            ENSEMBLE: ensemble(members=5, prior=10.0),
            DROPOUT: dropout(),
            GREEDY: epsilon_greedy(decay=BURN_IN),
        },
        episodes=sizes.cars,
        seeds=seeds,
        goal=-199.5,  # the goal was reached at all
        window=1,
        learning={"updates": 50},
    )


def _shorter(environment: Any, sizes: Budget) -> Any:
    return replace(environment, steps=sizes.longest) if sizes.longest else environment
