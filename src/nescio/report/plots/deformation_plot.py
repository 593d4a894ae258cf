"""Plots of how stable a network is: changes by the size of a deformation, Lipschitz constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from nescio.core import NescioError
from nescio.evaluation import ShiftCurves
from nescio.evaluation.deformations import INPUTS
from nescio.geometry import PlaneLipschitz
from nescio.report.plots.look import GRAY, add_title, label, line, panels, per_cent, with_look

FLOOR = 1e-3  # of a constant, relative to the largest: darker is not told apart


@with_look
def deformation_curves(found: Sequence[ShiftCurves]) -> Figure:
    """Columns are kinds of deformation; above the change of the outputs, below the flipped labels.

    Bands are 95 % intervals. Thin lines are the bounds by the product of the layers.
    """
    flips = any(one.subjects("flipped") for one in found)
    rows = 2 if flips else 1
    figure = Figure(figsize=(3.7 * len(found), 3.4 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, len(found), squeeze=False, sharey="row")
    for axes, one in zip(grid.T, found, strict=True):
        _changes(axes[0], one)
        axes[0].set_title(one.shift, loc="left")
        if flips:
            _flips(axes[1], one)
        axes[-1].set_xlabel(one.description)
        axes[-1].xaxis.set_major_locator(MaxNLocator(5))
    grid[0, 0].set_ylabel("change of the outputs\n(1: that of another image)")
    grid[0, 0].legend(fontsize=8, loc="best")
    if flips:
        grid[1, 0].set_ylabel("labels that change")
        grid[1, 0].set_ylim(bottom=0)  # last, of all that share it: it would stop at what is drawn
    add_title(figure, "How far the outputs move when an image is deformed")
    return figure


def _names(found: ShiftCurves) -> list[str]:
    return [name for name in found.subjects("change") if name != INPUTS]


def _changes(axis: Axes, found: ShiftCurves) -> None:
    sizes = found.strengths[1:]
    for index, name in enumerate(_names(found)):
        look = line(index)
        _banded(axis, found, name, "change", look)
        if name in found.subjects("bound"):
            axis.plot(
                sizes, _numbers(found, name, "bound"), color=look["color"], linewidth=0.9,
                linestyle=look["linestyle"], alpha=0.8, label=f"bound, {label(name)}",
            )  # fmt: skip
    axis.plot(
        sizes, _numbers(found, INPUTS, "change"), color=GRAY, linestyle=":", linewidth=1.4,
        label="the images themselves",
    )  # fmt: skip
    axis.set_yscale("log")


def _flips(axis: Axes, found: ShiftCurves) -> None:
    for index, name in enumerate(_names(found)):
        if name in found.subjects("flipped"):
            _banded(axis, found, name, "flipped", line(index))
    per_cent(axis.yaxis)


def _banded(axis: Axes, found: ShiftCurves, name: str, metric: str, look: dict[str, Any]) -> None:
    """A curve and its interval."""
    sizes = found.strengths[1:]
    value, low, high = (_numbers(found, name, metric, end) for end in ("value", "low", "high"))
    axis.plot(sizes, value, label=label(name), **look)
    axis.fill_between(sizes, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _numbers(found: ShiftCurves, name: str, metric: str, end: Any = "value") -> Any:
    """A curve without its start at 0."""
    return np.array(found.curve(name, metric, end)[1:], dtype=np.float64)


@with_look
def lipschitz_histograms(
    local: Mapping[str, Any], marks: Mapping[str, Mapping[str, float]], title: str
) -> Figure:
    """One panel per network: constants at its inputs, and lines at named numbers, on a log scale.

    local: constants `(N,)` by network; marks: numbers by network and by what they are.
    """
    figure, axes = panels(len(local), height=3.1, title=title, columns=3)
    ends = [float(v) for name in local for v in (min(local[name]), *marks[name].values())]
    edges = np.geomspace(0.8 * min(ends), 1.25 * max(ends), 60)
    for axis, (name, constants) in zip(axes, local.items(), strict=True):
        axis.hist(np.asarray(constants), edges.tolist(), color="#bbbbbb", label="local, by input")
        for index, (what, value) in enumerate(marks[name].items()):
            look = line(index)
            axis.axvline(
                value, color=look["color"], linestyle=look["linestyle"], linewidth=1.8,
                label=f"{what}: {value:.3g}",
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_title(label(name), loc="left")
        axis.set_xlabel("Lipschitz constant")
        axis.legend(fontsize=8, loc="best", frameon=True, framealpha=0.9)
        axis.set_ylim(top=1.6 * axis.get_ylim()[1])
    axes[0].set_ylabel("inputs")
    return figure


@with_look
def lipschitz_map(
    found: PlaneLipschitz, title: str, points: Any = None, labels: Any = None
) -> Figure:
    """The constant of every linear region of a plane by color, and points `(N, 2)` with labels."""
    if found.regions.box is None:
        raise NescioError("a map needs regions over a box: plane_lipschitz(net, box)")
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axis = figure.subplots()
    constants = found.constants.numpy()
    scale = LogNorm(max(constants.min(), FLOOR * constants.max()), constants.max())
    drawn = PolyCollection(
        [corners.numpy() for corners in found.regions.polygons],
        array=np.clip(constants, scale.vmin, None), cmap="viridis", norm=scale,
        edgecolors="face", linewidths=0.2,
    )  # fmt: skip
    axis.add_collection(drawn)
    bar = figure.colorbar(drawn, ax=axis, label="Lipschitz constant of the region")
    for ticks in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
        ticks(FuncFormatter(lambda value, _: f"{value:g}"))
    (left, right), (bottom, top) = found.regions.box
    axis.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axis.grid(visible=False)
    if points is not None:
        for index, value in enumerate(np.unique(labels)):
            chosen = np.asarray(points)[np.asarray(labels) == value]
            axis.scatter(
                chosen[:, 0], chosen[:, 1], s=7, color=("white", "#D55E00")[index % 2], linewidths=0
            )
    add_title(figure, title)
    return figure
