"""Plots of how confidence is spread; a panel a predictor."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.evaluate import ADVERSARIAL
from nescio.report import findings
from nescio.report.drawing import COLOURS, GREY, across, label, panels, per_cent, with_look
from nescio.report.tables import Result

BLUE, VERMILLION = COLOURS[:2]
ROW = 1.25  # from base line to base line, where all cases in one bin have height 1


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
