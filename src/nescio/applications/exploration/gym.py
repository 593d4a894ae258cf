"""CartPole and MountainCar of Gymnasium behind the protocol of environments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.applications.exploration.environment import as_actions
from nescio.core import NescioError, derive

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class GymEnvironment:
    """An environment of Gymnasium with numbers as observations; see `cart_pole`, `mountain_car`.

    name: name of the environment.
    id: Gymnasium's name of it.
    actions: number of actions.
    names: names of the observations.
    ranges: ranges of the observations, which are scaled to -1 to 1.
    steps: decisions of the longest episode.
    solved: mean reward over the last `window` episodes that counts as solved; None: none does.
    window: number of episodes for that mean.
    """

    name: str
    id: str
    actions: int
    names: tuple[str, ...]
    ranges: tuple[Range, ...]
    steps: int
    solved: float | None
    window: int = 100
    continuing: bool = field(default=False, init=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return (len(self.ranges),)

    def start(self, seeds: Sequence[int]) -> "GymRuns":
        """One environment for each of the `seeds`."""
        return GymRuns(self, seeds)

    def scaled(self, observations: Any) -> Tensor:
        """Observations in Gymnasium's units as networks read them.

        observations: observations `(..., names)`.
        """
        low, high = torch.tensor(self.ranges, dtype=torch.float64).T
        values = torch.as_tensor(np.asarray(observations), dtype=torch.float64)
        scaled: Tensor = 2 * (values - low) / (high - low) - 1
        return scaled.float()


def cart_pole() -> GymEnvironment:
    """CartPole-v1: keep a pole upright on a cart; a reward of 1 per decision, at most 500."""
    return GymEnvironment(
        name="cart_pole",
        id="CartPole-v1",
        actions=2,
        names=("cart position", "cart velocity", "pole angle", "pole velocity"),
        ranges=((-2.4, 2.4), (-3.0, 3.0), (-0.21, 0.21), (-3.0, 3.0)),
        steps=500,
        solved=475.0,
    )


def mountain_car() -> GymEnvironment:
    """MountainCar-v0: swing a weak car out of a valley; -1 per decision, 200 at most."""
    return GymEnvironment(
        name="mountain_car",
        id="MountainCar-v0",
        actions=3,
        names=("position", "velocity"),
        ranges=((-1.2, 0.6), (-0.07, 0.07)),
        steps=200,
        solved=-110.0,
    )


class GymRuns:
    """S environments of Gymnasium, one after the other: it has no stacked form of all of them."""

    def __init__(self, environment: GymEnvironment, seeds: Sequence[int]) -> None:
        self.environment, self.seeds = environment, tuple(seeds)
        # learn() counts decisions: a time limit is not an end
        self.each = [_made(environment.id).unwrapped for _ in seeds]
        self._check()

    def _check(self) -> None:
        """Refuse an environment that is not what its description says."""
        said = self.environment
        for one in self.each[:1]:
            actions, shape = getattr(one.action_space, "n", None), one.observation_space.shape
            if (
                actions != said.actions
                or shape != said.shape
                or len(said.names) != len(said.ranges)
            ):
                raise NescioError(
                    f"{said.id} has {actions or 'no whole number of'} actions and observations of "
                    f"shape {shape}; {said.name} was described with {said.actions} actions, "
                    f"{len(said.names)} names and {len(said.ranges)} ranges of observations"
                )

    def reset(self, episode: int) -> Tensor:
        """First observations of an episode; a function of the seed and the episode."""
        name = self.environment.name
        seeds = [derive(seed, name, episode) % 2**32 for seed in self.seeds]
        first = [one.reset(seed=seed)[0] for one, seed in zip(self.each, seeds, strict=True)]
        self.last, self.over = np.array(first), np.zeros(len(first), dtype=bool)
        return self.environment.scaled(self.last)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Observations, rewards and which runs have ended; those stay where they are, reward 0."""
        chosen = as_actions(actions, runs=len(self.each), count=self.environment.actions).tolist()
        rewards = np.zeros(len(self.each))
        for run in np.flatnonzero(~self.over):
            self.last[run], rewards[run], self.over[run], *_ = self.each[run].step(chosen[run])
        ended = torch.from_numpy(self.over.copy())
        return self.environment.scaled(self.last), torch.from_numpy(rewards), ended


def _made(name: str) -> Any:
    """An environment of Gymnasium by its name."""
    try:
        import gymnasium
    except ImportError as error:
        raise NescioError(
            f"{name} is an environment of Gymnasium, which is not installed: "
            "pip install nescio[exploration]"
        ) from error
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise NescioError(f"Gymnasium has no environment {name!r} to offer: {error}") from error
