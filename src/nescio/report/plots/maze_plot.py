"""A maze from above: walls, items, the agent, and what its nine eyes see."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.applications.exploration.maze_world import (
    BAD,
    EYES,
    GOOD,
    HEIGHT,
    WALLS,
    WIDTH,
    World,
)
from nescio.report.plots.look import COLORS, GRAY, add_title, with_look

LOOKS = {GOOD: (COLORS[2], "good item (+5)", "o"), BAD: (COLORS[1], "bad item (-6)", "X")}


@with_look
def maze_picture(world: World, *, run: int = 0, title: str = "The maze") -> Figure:
    """One run of a maze; an eye has the color of what it sees, gray where that is nothing."""
    figure = Figure(figsize=(8.4, 6.6), layout="constrained")
    axis = figure.subplots()
    for one, two in WALLS:
        axis.plot([one.real, two.real], [one.imag, two.imag], color="black", linewidth=2.5)
    for kind, (color, words, marker) in LOOKS.items():
        points = world.items[run][world.kinds[run] == kind]
        axis.scatter(points.real, points.imag, s=110, color=color, marker=marker, label=words)
    _agent(axis, world, run)
    axis.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal", xticks=[], yticks=[])
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.legend(loc="outside lower center", ncols=3)
    add_title(figure, title)
    return figure


def _agent(axis: Axes, world: World, run: int) -> None:
    """The agent as a disk with its eyes as lines."""
    at, colors = world.at[run], {kind: look[0] for kind, look in LOOKS.items()} | {0: "black"}
    far, kinds = (part[run] for part in world.seen)
    ends = at + far * np.exp(1j * (world.angle[run] + EYES))
    for end, kind in zip(ends, kinds, strict=True):
        color = colors.get(int(kind), GRAY)
        axis.plot([at.real, end.real], [at.imag, end.imag], color=color, linewidth=1)
    axis.scatter(at.real, at.imag, s=260, color=COLORS[0], zorder=3, label="agent and its eyes")
