"""Pictures of active learning: error against labels, and the first images that were asked for."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.applications.active_learning import Curves
from nescio.report.plots.look import (
    COLORS,
    DASHES,
    GRAY,
    add_title,
    label,
    panels,
    per_cent,
    with_look,
)
from nescio_papers.kit import sample

Named = Mapping[str, Curves]
GOAL = 0.05
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@with_look
def errors_figure(
    groups: Mapping[str, Named], styles: Mapping[str, tuple[int, int]], title: str
) -> Figure:
    """The mean test error of each method with its 95 % interval over seeds, a panel per group.

    styles: numbers of the color and of the dashes of each method.
    """
    figure, axes = panels(len(groups), height=4.6, title=title)
    for axis, (name, group) in zip(axes, groups.items(), strict=True):
        for method, curves in group.items():
            _line(axis, method, curves, styles[method])
        axis.axhline(GOAL, color=GRAY, linewidth=0.8)
        axis.set(title=name, xlabel="labels", yscale="log")
        axis.set_yticks(TICKS, minor=False)
        axis.minorticks_off()
        per_cent(axis.yaxis)
        axis.legend(fontsize=9)
    axes[0].set_ylabel("test error")
    return figure


def _line(axis: Axes, name: str, curves: Curves, style: tuple[int, int]) -> None:
    points = [sample(column) for column in curves.error.T]
    mean = np.array([one.mean for one in points])
    half = np.nan_to_num([one.half for one in points])
    color, dashes = COLORS[style[0]], DASHES[style[1]]
    axis.plot(curves.labels, mean, color=color, linestyle=dashes, label=label(name), linewidth=1.6)
    low = np.maximum(mean - half, mean / 10)  # the axis has no 0
    axis.fill_between(curves.labels, low, mean + half, color=color, alpha=0.15, linewidth=0)


@with_look
def asked_figure(images: Tensor, rows: Mapping[str, Sequence[Sequence[int]]], title: str) -> Figure:
    """A line of images for each method, batch after batch; `rows` has their indices."""
    across = max(sum(len(batch) for batch in batches) for batches in rows.values())
    figure = Figure(figsize=(0.52 * across + 1.6, 0.62 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots(len(rows), across, squeeze=False)
    for line, (name, batches) in zip(axes, rows.items(), strict=True):
        every = [index for batch in batches for index in batch]
        for axis, index in zip(line, every, strict=False):
            axis.imshow(images[index][0], cmap="gray_r")
        for axis in line:
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
            axis.spines[:].set_visible(False)
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        for end in ends:  # a bar between batches
            line[end].axvline(-2.5, color="#D55E00", linewidth=2, clip_on=False)
        line[0].set_ylabel(label(name), rotation=0, ha="right", va="center", fontsize=9)
    add_title(figure, title)
    return figure
