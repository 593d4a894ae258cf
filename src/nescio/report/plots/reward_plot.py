"""Reward curves: the mean reward of agents by episode, with intervals over seeds."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.applications.exploration import Rewards
from nescio.core import NescioError, unknown
from nescio.report.plots.look import GRAY, label, line, panels, with_look

SCALES = ("log", "linear")


@with_look
def reward_curves(
    found: Mapping[str, Rewards],
    *,
    title: str | None = None,
    scale: Literal["log", "linear"] = "log",
    reward: float | None = None,
    window: int | None = None,
    level: float = 0.95,
    episode: str = "episode",
) -> Figure:
    """One line per agent: the mean over seeds of the last rewards, and its interval as a band.

    scale: of the axis of episodes. reward: drawn as a dotted line; where the task counts as
    solved by default. The medians of the episodes to it are in the legend. window: the number of
    episodes that are averaged. level: of Student's intervals. episode: what an episode is called.
    """
    if not found:
        raise NescioError("there are no rewards to draw; give at least one by name")
    if scale not in SCALES:
        raise NescioError(unknown("scale", scale, SCALES))
    first = next(iter(found.values()))
    window = first.window if window is None else window
    reward = first.solved if reward is None else reward
    figure, (axis,) = panels(1, height=4.8, title=title or f"Rewards, {first.environment}")
    for index, (name, rewards) in enumerate(found.items()):
        _curve(axis, index, _legend(name, rewards, reward, window), rewards, window, level)
    if reward is not None:
        axis.axhline(reward, color=GRAY, linestyle=":", linewidth=1)
    axis.set_xscale(scale)
    axis.set_xlabel(f"{episode} (band: {100 * level:g} % interval of the mean over seeds)")
    axis.set_title(f"reward, mean of the last {window}", loc="left")
    axis.legend(fontsize=9)
    return figure


def _curve(axis: Axes, index: int, words: str, rewards: Rewards, window: int, level: float) -> None:
    band, number = rewards.interval(window=window, level=level), np.arange(rewards.episodes) + 1
    marks = np.unique(np.geomspace(1, rewards.episodes, 12).astype(int) - 1).tolist()
    look = line(index) | {"markevery": marks}
    axis.plot(number, band.value, label=words, **look)
    axis.fill_between(number, band.low, band.high, color=look["color"], alpha=0.15, linewidth=0)


def _legend(name: str, rewards: Rewards, reward: float | None, window: int) -> str:
    if reward is None:
        return label(name)
    times = rewards.episodes_to(reward, window=window)
    said = f"{times.reached} of {len(rewards.seeds)} seeds reach {reward:g}"
    if np.isfinite(times.median):
        said += f", median {times.median:g}"
    return f"{label(name)} ({said})"
