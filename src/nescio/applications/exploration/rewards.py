"""Rewards of an agent: the sum of each episode in each run, and when it solved the task."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nescio.applications.active_learning.curves import Band
from nescio.core import (
    Counts,
    Floats,
    NescioError,
    check_level,
    from_json,
    generator,
    load_manifest,
    save_manifest,
    to_json,
)

KIND, FILE = "rewards", "rewards.json"
RESAMPLES = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class EpisodesTo:
    """How many episodes a mean reward takes: infinite where it was not reached.

    reward: the mean reward.
    by_seed: number of episodes of each seed, `(S,)`.
    median: their median.
    low, high: interval of the median over the seeds, by the bootstrap.
    """

    reward: float
    by_seed: Floats
    median: float
    low: float
    high: float

    @property
    def reached(self) -> int:
        """How many seeds reached it."""
        return int(np.isfinite(self.by_seed).sum())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rewards:
    """The sum of rewards by episode, one row per seed.

    rewards: sum of rewards of each episode, `(S, E)`.
    seeds: numbers of the runs.
    solved: mean of `window` episodes from which the task is solved; None: none does.
    window: number of episodes for that mean.
    settings: how they were made, in JSON.
    """

    rewards: Floats
    seeds: tuple[int, ...]
    solved: float | None = None
    window: int = 20
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        what = f"{self.agent} on {self.environment}"
        return f"Rewards({what}, {len(self.seeds)} seeds, {self.episodes} episodes)"

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return str(self.settings.get("agent", {}).get("name", ""))

    @property
    def environment(self) -> str:
        """The name of the environment."""
        return str(self.settings.get("environment", {}).get("name", ""))

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return int(self.rewards.shape[1])

    def averaged(self, window: int | None = None) -> Floats:
        """The mean of the last rewards, `(S, E)`; at the start, of those there are.

        window: number of last episodes to average over; None: that of the environment.
        """
        window = self.window if window is None else window
        if window < 1:
            raise NescioError(f"window is a number of episodes, 1 or more, got {window}")
        total = np.cumsum(self.rewards, axis=1)
        before = np.zeros_like(total)
        before[:, window:] = total[:, :-window]
        return np.asarray((total - before) / np.minimum(np.arange(self.episodes) + 1, window))

    def interval(self, *, window: int | None = None, level: float = 0.95) -> Band:
        """The mean over seeds of the averaged rewards, with Student's interval; of one seed none.

        Intervals are those of each episode, not of the whole curve.

        window: number of last episodes to average over; None: that of the environment.
        level: confidence level of the interval.
        """
        from scipy.stats import t

        check_level(level)
        found, count = self.averaged(window), len(self.seeds)
        mean = found.mean(0)
        if count < 2:
            return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
        half = t.ppf((1 + level) / 2, count - 1) * found.std(0, ddof=1) / np.sqrt(count)
        return Band(mean, mean - half, mean + half)

    def episodes_to(
        self, reward: float | None = None, *, window: int | None = None, level: float = 0.95
    ) -> EpisodesTo:
        """After how many episodes the mean of the last rewards was first this high.

        reward: the mean reward to reach; None: that at which the task counts as solved.
        window: number of last episodes to average over; None: that of the environment.
        level: confidence level of the interval.
        """
        reward = self.solved if reward is None else reward
        if reward is None:
            raise NescioError(f"{self.environment} has no reward that solves it; give reward=")
        check_level(level)
        window = self.window if window is None else window
        high_enough = self.averaged(window) >= reward
        high_enough[:, : window - 1] = False
        first = np.where(high_enough.any(1), high_enough.argmax(1) + 1.0, np.inf)
        medians = np.median(first[_drawn_again(len(self.seeds))], axis=1)
        ends = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(medians, ends, method="nearest")  # no mean with infinity
        return EpisodesTo(
            reward=float(reward),
            by_seed=first,
            median=float(np.median(first)),
            low=float(low),
            high=float(high),
        )

    def first(self, episodes: int) -> "Rewards":
        """The rewards of the first `episodes` alone, 1 or more."""
        if episodes < 1:
            raise NescioError(f"episodes must be positive, got {episodes}")
        return replace(self, rewards=self.rewards[:, :episodes])

    def save(self, path: str | Path) -> Path:
        """Write a JSON file at `path`; into a folder as `rewards.json`."""
        path = _file(path)
        save_manifest(path, {"kind": KIND, **to_json(self)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Rewards":
        """Read what `save` wrote.

        path: the file, or the folder of a run.
        """
        return from_json(cls, load_manifest(_file(path), KIND), str(path))


def _drawn_again(seeds: int) -> Counts:
    """Seeds drawn again with replacement, indices (B, S)."""
    draws = torch.randint(seeds, (RESAMPLES, seeds), generator=generator(0, "rewards"))
    return np.asarray(draws.numpy())


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".json" else path / FILE
