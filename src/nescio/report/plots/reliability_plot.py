"""Reliability diagrams side by side: before and after calibration."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.core import NescioError
from nescio.metrics import Reliability
from nescio.report.plots.look import (
    BAND,
    GRAY,
    WIDTH,
    across,
    add_title,
    label,
    line,
    per_cent,
    with_look,
)


@with_look
def reliability_diagram(
    found: Mapping[str, Reliability], *, level: float = 0.95, title: str | None = None
) -> Figure:
    """Accuracy against confidence, one panel per name, such as before and after; below, the counts.

    Lines are exact bounds on the accuracy of a bin. Gray is where it would lie if the samples of
    the bin were as right as they are sure.
    """
    if not found:
        raise NescioError("nothing to draw: give reliabilities by name, {'before': ..., ...}")
    columns = across(len(found))
    rows = -(-len(found) // columns)
    size = (5.4 if columns == 1 else WIDTH, 5.1 * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[3, 1] * rows)
    for i, (name, bins) in enumerate(found.items()):
        row, column = divmod(i, columns)
        upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
        _accuracy(upper, i, bins, level)
        _counts(lower, i, bins)
        upper.set_title(f"{label(name)}\ncalibration error {100 * bins.ece:.1f} %", loc="left")
        if column == 0:
            upper.set_ylabel("accuracy")
            lower.set_ylabel("samples (log)")
    for spare in range(len(found), rows * columns):
        for half in range(2):
            grid[2 * (spare // columns) + half, spare % columns].remove()
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2 if columns == 1 else 4)
    add_title(figure, title or "Points below the dashed line are overconfident")
    return figure


def _accuracy(axis: Axes, i: int, bins: Reliability, level: float) -> None:
    full = bins.count > 0
    share = f"{100 * level:g} %"
    low, high = (end[full] for end in bins.expected(level))
    ends = np.stack([bins.edges[:-1][full], bins.edges[1:][full]])
    for k, (start, stop) in enumerate(ends.T):
        text = f"expected if calibrated, {share}" if k == 0 else None
        axis.fill_between([start, stop], low[k], high[k], color=BAND, linewidth=0, label=text)
    axis.plot(
        [0, 1], [0, 1], color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2, label="as right as sure"
    )
    below, above = (end[full] for end in bins.bounds(level))
    sure = bins.confidence[full]
    axis.vlines(sure, below, above, color=GRAY, linewidth=1.2, label=f"exact bounds, {share}")
    style = {**line(i), "linestyle": "", "clip_on": False, "zorder": 3}
    axis.plot(sure, bins.accuracy[full], label="accuracy of a bin", **style)
    axis.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[0, 0.25, 0.5, 0.75, 1])
    per_cent(axis.xaxis)
    per_cent(axis.yaxis)


def _counts(axis: Axes, i: int, bins: Reliability) -> None:
    axis.bar(
        bins.edges[:-1], bins.count, np.diff(bins.edges), align="edge", color=line(i)["color"],
        edgecolor="white", linewidth=0.5,
    )  # fmt: skip
    most = int(bins.count.max())
    axis.set(xlim=(0, 1), ylim=(0.5, 2 * most), yscale="log", xlabel="confidence")
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axis.text(
        0.02, 0.86, f"{int(bins.count.sum()):,} samples", transform=axis.transAxes, fontsize=10
    )
    per_cent(axis.xaxis)
