"""Bandits: one action an episode, and its reward is noisy."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.applications.exploration.environment import Outcome, as_actions
from nescio.core import NescioError, generator


@dataclass(frozen=True, kw_only=True)
class Bandit:
    """Arms whose mean rewards differ; of a contextual one, they are linear in the observation.

    Each run has its own means, standard normal. An episode is one pull.

    actions: number of arms.
    features: number of features of the observation, standard normal numbers that tell the means in
      this episode; 0: the means are always the same.
    noise: standard deviation of a reward.
    """

    actions: int = 10
    features: int = 0
    noise: float = 1.0

    def __post_init__(self) -> None:
        if self.actions < 2 or self.features < 0 or not 0 <= self.noise < torch.inf:
            raise NescioError(
                "a bandit needs actions of 2 or more, features of 0 or more and finite noise of 0 "
                f"or more, got {self}"
            )

    name = "bandit"
    steps = 1
    solved = None
    window = 100
    continuing = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation: the features and a constant 1."""
        return (self.features + 1,)

    def means(self, seeds: Sequence[int]) -> Tensor:
        """What the rewards of each run depend on, `(S, actions, features + 1)`.

        The last number is the mean at features of 0; the mean reward is the product with the
        observation.

        seeds: number of each run.
        """
        size = (self.actions, *self.shape)
        drawn = [torch.randn(size, generator=generator(seed, "bandit")) for seed in seeds]
        return torch.stack(drawn)

    def start(self, seeds: Sequence[int]) -> "BanditRuns":
        """One bandit for each of the `seeds`."""
        return BanditRuns(self, tuple(seeds))


class BanditRuns:
    """Bandits side by side."""

    def __init__(self, bandit: Bandit, seeds: tuple[int, ...]) -> None:
        self.bandit, self.seeds = bandit, seeds
        self.weights = bandit.means(seeds)
        self.observed = self.noise = torch.zeros(0)

    def reset(self, episode: int) -> Tensor:
        """New features; of a plain bandit, nothing but the constant."""
        draws = [generator(seed, "bandit", episode) for seed in self.seeds]
        features = self.bandit.features
        drawn = torch.stack([torch.randn(features + 1, generator=draw) for draw in draws])
        self.observed = torch.cat([drawn[:, :features], torch.ones(len(drawn), 1)], 1)
        self.noise = self.bandit.noise * drawn[:, features]
        return self.observed

    def rewards(self) -> Tensor:
        """The mean reward of each action in this episode, `(S, actions)`."""
        return torch.einsum("saf,sf->sa", self.weights, self.observed)

    def step(self, actions: Tensor) -> Outcome:
        """The reward of the arms pulled; the episode ends."""
        actions = as_actions(actions, runs=len(self.seeds), count=self.bandit.actions)
        reward = self.rewards().gather(1, actions[:, None])[:, 0] + self.noise
        return self.observed, reward, torch.ones(len(self.seeds), dtype=torch.bool)
