"""Learn by acting: all episodes of all runs, with the state on disk."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import nn

from nescio.applications.exploration.agents import Agent
from nescio.applications.exploration.environment import Environment
from nescio.applications.exploration.learner import FILE, QLearner, learner
from nescio.applications.exploration.rewards import Rewards
from nescio.core import NescioError, make_folder, owned
from nescio.core import progress as progress_bar

SECONDS = 20.0  # between two states on disk


def learn(
    environment: Environment,
    agent: Agent | str,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    make_net: Callable[[], nn.Module] | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Rewards:
    """The rewards of an agent that learns from what it does, episode by episode.

    >>> from nescio.applications.exploration import Chain
    >>> found = learn(Chain(length=4), "epsilon_greedy", episodes=3, seeds=2, updates=1)
    >>> found.rewards.shape
    (2, 3)

    environment: a value such as `Chain(length=20)`.
    agent: a name with options, such as "ensemble,members=20,prior=3", or a value such as
      `ensemble(members=20)`.
    episodes: number of episodes.
    seeds: number of runs, or which ones by number; each has its own world and networks. All of
      them, and all members of each, learn in one stack.
    make_net: a function without arguments that makes a network from an observation to one value per
      action; None: an mlp. With dropout it must have dropout layers, whose rate counts.
    seed: seed of the networks and the actions; the worlds depend on the numbers of the runs alone.
    run: folder for the state; the same call with the same folder continues, also to more episodes.
      None: nothing is stored.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    options: options of `QLearning`, such as `discount` and `learning_rate`.
    """
    if not isinstance(episodes, int) or episodes < 1:
        raise NescioError(f"episodes must be a positive whole number, got {episodes!r}")
    how = {"seeds": seeds, "make_net": make_net, "seed": seed, **options}
    folder = None if run is None else make_folder(Path(run))
    with nullcontext() if folder is None else owned(folder):
        state = learner(environment, agent, run=folder, **how)
        return _run(state, episodes, folder, progress)


def _run(state: QLearner, episodes: int, folder: Path | None, show: bool | None) -> Rewards:
    last = monotonic()
    with progress_bar(episodes, state.agent.name, show=show) as advance:
        advance(min(episodes, len(state.rewards)), str)
        while len(state.rewards) < episodes:
            rewards = state.episode()
            advance(1, partial("reward {:.3g}".format, rewards.mean()))
            ready = len(state.rewards) == episodes or monotonic() > last + SECONDS
            if folder is not None and ready:
                state.save(folder / FILE)
                last = monotonic()
    found = of_learner(state)
    if folder is not None:  # also what was lost between the two files
        found.save(folder)
    return found.first(episodes)


def of_learner(state: QLearner) -> Rewards:
    """The rewards of all episodes so far."""
    if not state.rewards:
        raise NescioError("no episode was played yet")
    return Rewards(
        rewards=torch.stack(state.rewards, 1).numpy(),
        seeds=state.seeds,
        solved=state.environment.solved,
        window=state.environment.window,
        settings=state.settings,
    )
