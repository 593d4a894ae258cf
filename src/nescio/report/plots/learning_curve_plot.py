"""Learning curves: accuracy or error rate by number of labels, with intervals over seeds."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from nescio.applications import active_learning as al
from nescio.core import Floats, NescioError
from nescio.report.plots.look import GRAY, label, line, panels, per_cent, with_look

FEW = 30  # steps up to which each has a mark


@with_look
def learning_curves(
    found: Mapping[str, al.Curves],
    *,
    title: str | None = None,
    show: Literal["accuracy", "error"] = "accuracy",
    target: float | None = 0.95,
    level: float = 0.95,
) -> Figure:
    """One line per acquisition: the mean over seeds, and Student's interval as a band.

    show: the accuracy, or the error rate on a logarithmic axis. target: an accuracy, drawn as a
    dotted line; the medians of the labels to it are in the legend. level: of the intervals.
    """
    if not found:
        raise NescioError("there are no curves to draw; give at least one by name")
    words = "accuracy" if show == "accuracy" else "error rate"
    title = title or f"{words.capitalize()} on test data by number of labels"
    figure, (axis,) = panels(1, height=4.8, title=title)
    bands = {name: _band(curves.interval(level=level), show) for name, curves in found.items()}
    bottom = _bottom([band.value for band in bands.values()], show)
    for index, (name, band) in enumerate(bands.items()):
        labels = found[name].labels
        look = line(index) | {"markevery": max(1, len(labels) // FEW)}
        axis.plot(labels, band.value, label=_legend(name, found[name], target), **look)
        low = np.maximum(band.low, bottom)
        axis.fill_between(labels, low, band.high, color=look["color"], alpha=0.15, linewidth=0)
    if target is not None:
        shown = target if show == "accuracy" else 1 - target
        axis.axhline(shown, color=GRAY, linestyle=":", linewidth=1)
    axis.set_xlabel(f"labels (band: {100 * level:g} % interval of the mean over seeds)")
    if show == "error":
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.minorticks_off()
    axis.set_ylim(bottom, 1.005 if show == "accuracy" else None)
    axis.set_title(words, loc="left")
    per_cent(axis.yaxis)
    axis.legend(fontsize=9, loc="lower right" if show == "accuracy" else "upper right")
    return figure


def _band(band: al.Band, show: str) -> al.Band:
    if show == "accuracy":
        return band
    return al.Band(1 - band.value, 1 - band.high, 1 - band.low)


def _bottom(means: list[Floats], show: str) -> float:
    """Where the axis begins: near the lowest means, and above 0 on a logarithmic one."""
    if show == "error":
        return 0.5 * min((float(mean[mean > 0].min()) for mean in means if mean.any()), default=0.1)
    return max(0.0, min(float(np.quantile(mean, 0.02)) for mean in means) - 0.05)


def _legend(name: str, curves: al.Curves, target: float | None) -> str:
    if target is None:
        return label(name)
    median = curves.labels_to(target).median
    said = f"{median:g} labels" if np.isfinite(median) else f"not by {curves.labels[-1]}"
    return f"{label(name)} ({100 * target:g} %: {said})"
