"""What the figures of the practical share: maps of the square, and dots with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, GRAY, MARKERS
from nescio_papers.kit import Sample

ARM_COLORS = (COLORS[0], COLORS[5], COLORS[2])


def show_map(
    figure: Figure,
    axis: Axes,
    values: Tensor,
    title: str,
    *,
    half: float = 2.0,
    bar: str = "",
    top: float | None = None,
    **look: Any,
) -> None:
    """Draw values on a square grid `(P^2,)`, with a color bar where it has a name."""
    side = round(len(values) ** 0.5)
    table = values.reshape(side, side).numpy().T
    look = {"cmap": "magma", "vmin": 0.0, "vmax": top, **look}
    image = axis.imshow(table, origin="lower", extent=(-half, half, -half, half), **look)
    plain(axis, title)
    if bar:
        figure.colorbar(image, ax=axis, label=bar, shrink=0.75)


def plain(axis: Axes, title: str) -> None:
    """A square panel of the plane, without grid lines."""
    axis.grid(False)
    axis.set_aspect("equal")
    axis.set_title(title, loc="left")
    axis.set_xlabel("$x_1$")
    axis.set_ylabel("$x_2$")


def show_arms(axis: Axes, x: Tensor, y: Tensor, title: str, *, half: float = 2.0) -> None:
    """Scatter the arms of the spiral."""
    for label, color in enumerate(ARM_COLORS):
        across, up = x[y == label].numpy().T
        axis.scatter(across, up, s=3, color=color, label=f"arm {label}")
    axis.set_xlim(-half, half)
    axis.set_ylim(-half, half)
    axis.legend(loc="lower right", markerscale=3, handletextpad=0.1, fontsize=9)
    plain(axis, title)


def dots(
    axis: Axes,
    names: Sequence[str],
    groups: Mapping[str, Sequence[Sample]],
    *,
    marks: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """A mean with its 95 % interval for each name, side by side for each group."""
    count = len(groups) + len(marks or {})
    offsets = (np.arange(count) - (count - 1) / 2) * 0.6 / max(count, 2)
    for i, (group, result) in enumerate(groups.items()):
        indices = np.arange(len(names)) + offsets[i]
        look: Any = {"color": COLORS[i], "marker": MARKERS[i], "linestyle": "none", "capsize": 3}
        means, halves = [one.mean for one in result], [one.half for one in result]
        axis.errorbar(indices, means, yerr=halves, label=group, markersize=5, **look)
    for j, (group, values) in enumerate((marks or {}).items()):
        indices = np.arange(len(names)) + offsets[len(groups) + j]
        axis.plot(indices, values, "_", color=GRAY, markersize=12, markeredgewidth=2, label=group)
    axis.set_xticks(range(len(names)), names)
    axis.set_xlim(-0.6, len(names) - 0.4)


def pairs(axis: Axes, before: Sample, after: Sample, names: tuple[str, str], title: str) -> None:
    """A line per seed from one way of training to the other, and the means with intervals."""
    for one, two in zip(before.values, after.values, strict=True):
        axis.plot([0, 1], [one, two], color="#bbbbbb", linewidth=1)
    for index, result in enumerate((before, after)):
        look: Any = {"color": COLORS[index], "marker": MARKERS[index], "capsize": 4}
        axis.errorbar([index], [result.mean], yerr=[result.half], markersize=7, zorder=3, **look)
    axis.set_xticks([0, 1], names)
    axis.set_xlim(-0.4, 1.4)
    axis.set_title(title, loc="left")
