"""Plots of how confidence is spread, and of how well it is earned; a panel a predictor."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.evaluate import ADVERSARIAL
from nescio.report import findings
from nescio.report.drawing import (
    COLOURS,
    GREY,
    WIDTH,
    across,
    add_title,
    label,
    line,
    panels,
    per_cent,
    with_look,
)
from nescio.report.tables import Result

BLUE, VERMILLION = COLOURS[:2]
ROW = 1.25  # from base line to base line, where all cases in one bin have height 1
Z = 1.96  # 95 % of a normal distribution


@with_look
def confidence_histograms(result: Result) -> Figure:
    """Share of cases at each confidence, a panel for each predictor, a row for each set."""
    predictors = result["predictors"]
    sets = list(dict.fromkeys(w for p in predictors.values() for w in p["confidence_histograms"]))
    title = findings.high_confidence(result)
    tall = 0.8 + (0.7 if len(sets) < 6 else 0.45) * len(sets)
    figure, axes = panels(len(predictors), height=tall, title=title)
    for i, (axis, (name, found)) in enumerate(zip(axes, predictors.items(), strict=True)):
        for row, where in enumerate(reversed(sets)):
            counts = found["confidence_histograms"].get(where, [])
            _bars(axis, ROW * row, counts, BLUE if where == "test" else VERMILLION)
        axis.set_title(label(name), loc="left")
        names = (
            [label(_short(where), 22) for where in reversed(sets)]
            if i % across(len(predictors)) == 0
            else []
        )
        axis.set_yticks([ROW * k + 0.3 for k in range(len(sets))], names or [""] * len(sets))
        axis.tick_params(axis="y", length=0)
        axis.set(xlim=(0, 1), ylim=(0, ROW * len(sets)), xlabel="confidence")
        axis.set_xticks([0, 0.5, 1])
        per_cent(axis.xaxis)
        axis.grid(visible=False)
        axis.axvline(1 / found["classes"], color=GREY, linestyle=":", linewidth=1.4)
    return figure


def _short(where: str) -> str:
    """A set's name without the options of the attack."""
    return ADVERSARIAL if where.startswith(ADVERSARIAL) else where


def _bars(axis: Axes, base: float, counts: Sequence[int], colour: str) -> None:
    """Bars on their own base line; a bar of full height holds all cases of the set."""
    total = sum(counts)
    axis.axhline(base, color="#bbbbbb", linewidth=0.8, zorder=0.5)
    if not total:
        return
    left = [k / len(counts) for k in range(len(counts))]
    shares = [count / total for count in counts]
    axis.bar(left, shares, 1 / len(counts), bottom=base, align="edge", color=colour)
    place: Any = {"ha": "left", "va": "bottom", "fontsize": 10}
    axis.text(1.02, base + 0.05, f"{100 * shares[-1]:.0f} %", **place)


@with_look
def reliability_diagrams(result: Result) -> Figure:
    """Accuracy against confidence with 95 % intervals, and below the cases in each bin."""
    predictors = result["predictors"]
    columns = across(len(predictors))
    rows = -(-len(predictors) // columns)
    wide = 8 if columns == 1 else WIDTH
    figure = Figure(figsize=(wide, 4.6 * rows + 0.9), layout="constrained")
    ratios = [3, 1] * rows
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=ratios, sharex="col")
    add_title(figure, findings.calibration(result))
    for i, (name, found) in enumerate(predictors.items()):
        row, column = divmod(i, columns)
        upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
        _diagram(upper, i, found["reliability"])
        _counts(lower, i, found["reliability"])
        upper.set_title(label(name), loc="left")
        if column == 0:
            upper.set_ylabel("accuracy")
            lower.set_ylabel("cases (log)")
    for spare in range(len(predictors), rows * columns):
        for half in range(2):
            grid[2 * (spare // columns) + half, spare % columns].remove()
    return figure


def _diagram(axis: Axes, i: int, bins: Any) -> None:
    filled = [k for k, count in enumerate(bins["count"]) if count]
    confidence = [bins["confidence"][k] for k in filled]
    accuracy = [bins["accuracy"][k] for k in filled]
    axis.plot(confidence, accuracy, **{**line(i), "linestyle": "", "clip_on": False})
    axis.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    ends = [_wilson(bins["accuracy"][k], bins["count"][k]) for k in filled]
    axis.vlines(confidence, [e[0] for e in ends], [e[1] for e in ends], color=GREY, linewidth=1)
    axis.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[0, 0.25, 0.5, 0.75, 1])
    per_cent(axis.yaxis)


def _counts(axis: Axes, i: int, bins: Any) -> None:
    edges, counts = bins["edges"], bins["count"]
    filled = [k for k, count in enumerate(counts) if count]
    widths = [edges[k + 1] - edges[k] for k in filled]
    heights = [counts[k] for k in filled]
    axis.bar([edges[k] for k in filled], heights, widths, align="edge", color=line(i)["color"])
    axis.set_yscale("log")
    axis.tick_params(labelbottom=True)
    axis.set(ylim=(0.5, 2 * max(heights, default=1)), xlabel="confidence")
    per_cent(axis.xaxis)


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share observed in `count` cases."""
    scale = 1 + Z**2 / count
    middle = (share + Z**2 / (2 * count)) / scale
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2)) / scale
    return middle - half, middle + half
