"""Figures of exact limits: by the number of members, and round the circle of directions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from nescio.core import Categorical
from nescio.geometry.rays.limit_map import LimitMap
from nescio.report.plots.look import COLORS, GRAY, add_title, line, panels, per_cent, with_look
from nescio_papers.kit import Settings, percent
from nescio_papers.know_your_limits.surfaces import ENTROPY, INFORMATION, functions, titled, top

RIM = 1.08  # where the class of the mixture is drawn, in radii of the circle


@with_look
def figure_of_members(result: Mapping[str, Any], settings: Settings) -> Figure:
    """Mean limits of two measures and the share of disagreement, one line a method."""
    kinds = [f"{INFORMATION}, mean", f"{ENTROPY}, mean", "disagree"]
    titles = [f"mean limit of {INFORMATION}", f"mean limit of {ENTROPY}", "members disagree"]
    figure, axes = panels(
        3,
        height=3.9,
        title="Far away mutual information is the whole predictive entropy, and both grow with the "
        "directions in which members disagree",
    )
    for axis, kind, title in zip(axes, kinds, titles, strict=True):
        for i, (name, rows) in enumerate(result.items()):
            members = [int(size) for size in rows]
            axis.plot(members, [row[kind]["mean"] for row in rows.values()], label=name, **line(i))
        ticks = sorted({int(size) for rows in result.values() for size in rows})
        axis.set_xscale("log")
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set(xlabel="members M", ylim=(0, None))
        axis.set_title(title, loc="left")
    for axis in axes[:2]:
        axis.set_ylabel(settings.unit)
    axes[2].set_ylabel("share of all directions")
    per_cent(axes[2].yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


@with_look
def figure_of_circles(result: Mapping[str, Mapping[int, LimitMap]], settings: Settings) -> Figure:
    """The limit of the predictive entropy in all directions: a row a method, a column a size."""
    sizes = list(next(iter(result.values())))
    figure = Figure(figsize=(10.8, 4.1 * len(result) + 0.9), layout="constrained")
    axes: Any = figure.subplots(
        len(result), len(sizes), squeeze=False, subplot_kw={"projection": "polar"}
    )
    most = top(ENTROPY, settings.base)
    for row, (name, maps) in zip(axes, result.items(), strict=True):
        for axis, (size, limits) in zip(row, maps.items(), strict=True):
            _circle(axis, limits, most, settings.base)
            axis.set_title(f"{name}, M = {size}", loc="left", pad=14)
    marks = [axes[0, 0].bar(0, 0, 0, color=COLORS[i]) for i in (0, 1, 3)]
    names = [f"rim: class {i} of the mixture" for i in (0, 1)]
    names.append(f"limit of {titled(ENTROPY, settings.unit)}")
    figure.legend(marks, names, loc="outside lower center", ncols=3)
    last = [maps[sizes[-1]].share()["disagreeing"] for maps in result.values()]
    shares = [percent(value) for value in last]
    add_title(
        figure,
        f"One network is sure in every direction; {sizes[-1]} disagree in {shares[0]} of them, "
        f"anchored ones in {shares[-1]}",
    )
    return figure


def _circle(axis: Any, limits: LimitMap, most: float, base: float) -> None:
    """Wedges as long as the limit, and a rim in the color of the class."""
    start, width = limits.angles[:-1].numpy(), limits.widths.numpy()
    prediction = Categorical.from_probs(limits.limit)
    value = functions(base)[ENTROPY](prediction).numpy()
    labels = prediction.probs.argmax(-1).numpy()
    thin: Any = {"align": "edge", "linewidth": 0.4}  # no gaps between wedges of one color
    axis.bar(start, value, width, color=COLORS[3], edgecolor=COLORS[3], **thin)
    rim = [COLORS[label] for label in labels]
    axis.bar(start, 0.08 * most, width, bottom=most, color=rim, edgecolor=rim, **thin)
    axis.set_ylim(0, RIM * most)
    axis.set_yticks([most / 2], [f"{most / 2:.2f}"], color=GRAY, fontsize=8)
    axis.set_rlabel_position(150)
    axis.set_xticks(np.arange(4) * np.pi / 2, ["$x_1$", "$x_2$", "$-x_1$", "$-x_2$"])
    axis.spines["polar"].set_visible(False)
