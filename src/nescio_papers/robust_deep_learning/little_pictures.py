"""Pictures of learning from few labels: maps of half-moons, errors on MNIST, ramps."""

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from nescio.core import ramp_up
from nescio.core.schedules import cosine, ramps
from nescio.report.plots.look import (
    COLORS,
    DASHES,
    MARKERS,
    WIDTH,
    add_title,
    panels,
    per_cent,
    with_look,
)
from nescio_papers.robust_deep_learning.little_methods import SUPERVISED, Outcome, Task

SIDE = 120  # of a map
EDGES = (-1.6, 2.6, -1.15, 1.65)  # left, right, bottom, top
TICKS = (0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.1, 0.2, 0.5, 1.0)  # of errors
BETWEEN = LinearSegmentedColormap.from_list("classes", [COLORS[0], "#ffffff", COLORS[1]])


def words(name: str) -> str:
    """The name of a method as it is read."""
    return name.replace("_", " ")


@with_look
def moons(task: Task, found: Mapping[str, Outcome], draw: int) -> Figure:
    """What each method answers in the plane, with the six labels of a draw."""
    title = f"Half-moons with six labels, draw {draw + 1}: where each method decides, and accuracy"
    figure, axes = panels(len(found), height=2.3, title=title)
    for axis, (name, one) in zip(axes, found.items(), strict=True):
        image = _map(axis, one, draw)
        _samples(axis, task, draw)
        right = 100 * (1 - one.errors.values[draw])
        axis.set_title(f"{words(name)}: {right:.1f} %", loc="left")
    figure.colorbar(image, ax=axes, shrink=0.6, label="probability of the second arm")
    return figure


def _map(axis: Axes, one: Outcome, draw: int) -> Any:
    left, right, bottom, top = EDGES
    across, up = torch.linspace(left, right, SIDE), torch.linspace(bottom, top, SIDE)
    y, x = torch.meshgrid(up, across, indexing="ij")
    prediction: Any = one.model.choose([draw])(torch.stack([x.flatten(), y.flatten()], 1))
    values = prediction.member_probs[0, :, 1].view(SIDE, SIDE)
    axis.contour(across, up, values, levels=[0.5], colors="black", linewidths=1)
    return axis.imshow(values, origin="lower", cmap=BETWEEN, vmin=0, vmax=1, extent=EDGES,
                       aspect="equal", interpolation="bilinear")  # fmt: skip


def _samples(axis: Axes, task: Task, draw: int) -> None:
    """Inputs without labels as dots, those of the draw as large marks of their class."""
    others = task.unlabeled[::3]
    axis.scatter(others[:, 0], others[:, 1], s=3, color="black", alpha=0.5, linewidths=0)
    labels = task.labeled[1].view(task.draws, -1)[draw]
    inputs = task.labeled[0].view(task.draws, len(labels), -1)[draw]
    for label in range(2):
        own = inputs[labels == label]
        axis.scatter(own[:, 0], own[:, 1], s=90, marker=MARKERS[label], color=COLORS[label],
                     edgecolors="white", linewidths=2, zorder=3)  # fmt: skip
    axis.grid(visible=False)
    axis.set_xticks([])
    axis.set_yticks([])


@with_look
def errors(found: Mapping[str, Outcome], wanted: float, published: Mapping[str, float]) -> Figure:
    """The error of each draw, the mean and its interval, by method."""
    figure = Figure(figsize=(WIDTH, 1.9 + 0.5 * len(found)), layout="constrained")
    axis = figure.subplots()
    for place, (name, one) in enumerate(found.items()):
        color = COLORS[7] if name == SUPERVISED else COLORS[0]
        axis.errorbar(one.errors.mean, place, xerr=one.errors.half, color=color, fmt="D",
                      markersize=7, capsize=4, linewidth=2)  # fmt: skip
        axis.scatter(one.errors.values, [place] * len(one.errors.values), s=16, color="black",
                     alpha=0.6, zorder=3, linewidths=0)  # fmt: skip
    for number, (name, value) in enumerate(published.items()):
        axis.axvline(value, color=COLORS[2 + number], linestyle=":", label=name)
    axis.axvline(wanted, color=COLORS[1], linestyle="--", label=f"wanted: {100 * wanted:g} %")
    axis.set_yticks(range(len(found)), [words(name) for name in found])
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlabel("test error (dots: draws; bars: 95 % interval of the mean)")
    figure.legend(loc="outside lower center", ncols=2)
    per_cent(axis.xaxis)
    shares = [share for share in TICKS if share <= axis.get_xlim()[1]]
    axis.set_xticks(shares)
    axis.minorticks_off()
    add_title(figure, "MNIST with 100 labels")
    return figure


@with_look
def published_ramps() -> Figure:
    """The weight of unlabeled inputs and the learning rate over a training, as published."""
    figure, axes = panels(2, height=2.4, title="Ramps over a training")
    steps, schedule = 300, ramps()
    epochs = range(steps + 1)
    weights = [0.0, *(ramp_up(epoch, 80) for epoch in epochs[1:])]
    axes[0].plot(epochs, weights, color=COLORS[0], label="as published, and here")
    axes[0].set_title("weight of the unlabeled term", loc="left")
    rates = {"as published": schedule, "here: half a cosine": cosine}
    for number, (name, rate) in enumerate(rates.items()):
        axes[1].plot(epochs, [rate(epoch, steps) for epoch in epochs], label=name,
                     color=COLORS[number], linestyle=DASHES[number])  # fmt: skip
    axes[1].set_title("learning rate", loc="left")
    for axis in axes:
        axis.set_xlabel("epoch of 300")
        axis.set_ylim(0, 1.05)
        axis.legend(loc="lower center")
    return figure
