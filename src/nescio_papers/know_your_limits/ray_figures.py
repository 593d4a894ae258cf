"""Figures of measures along rays, and of the counter-example."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.report.plots.look import DASHES, GRAY, add_title, line, panels, with_look
from nescio_papers.kit import Settings
from nescio_papers.know_your_limits.surfaces import OF_MANY, Field, Floats, titled, top

LAST = 1e6  # the largest factor
FLOOR = 1e-12  # lowest value that is drawn


@with_look
def figure_of_rays(
    alphas: Floats,
    result: Mapping[str, Mapping[str, Field]],
    settings: Settings,
    *,
    gradient: bool,
    title: str = "",
) -> Figure:
    """A panel for each measure; for each model the median, and thinner the 90 % quantile."""
    kinds = [kind for kind in OF_MANY if any(kind in fields_ for fields_ in result.values())]
    title = title or (
        "Gradients fall to nothing on the rays of trained networks"
        if gradient
        else "Every measure comes to rest far out on a ray, mostly at certainty"
    )
    figure, axes = panels(len(kinds), height=3.6, title=title)
    for axis, kind in zip(axes, kinds, strict=True):
        for i, (name, fields_) in enumerate(result.items()):
            if kind not in fields_:
                continue
            values = fields_[kind].slope if gradient else fields_[kind].value
            middle, high = np.maximum(np.quantile(values, (0.5, 0.9), axis=0), FLOOR)
            look = {**line(i), "marker": ""}
            axis.plot(alphas, middle, label=name, **look)
            axis.plot(alphas, high, **{**look, "linewidth": 0.9})
        axis.set_xscale("log")
        axis.set_title(kind, loc="left")
        axis.set_xlabel(r"$\alpha$: factor of one coordinate")
        axis.set(yscale="log", ylim=(0.5 * FLOOR, 30))
        axis.minorticks_off()
        axis.set_ylabel("norm of the gradient" if gradient else titled(kind, settings.unit))
        if not gradient:
            axis.axhline(top(kind, settings.base), color=GRAY, linestyle=":", linewidth=1.2)
    handles, labels = max((a.get_legend_handles_labels() for a in axes), key=lambda h: len(h[0]))
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


@with_look
def figure_of_example() -> Figure:
    figure = Figure(figsize=(10.8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    alphas = np.geomspace(1, LAST, 25)
    matrices = {"V = [[1, 1], [1, -1]]: equal slopes": 1.0, "V = [[1, 1], [0.9, -1]]": 0.9}
    for i, (name, entry) in enumerate(matrices.items()):
        probs = 1 / (1 + np.exp(-np.minimum(0.6 + (1 - entry) * alphas, 700)))
        slope = probs * np.exp(-np.minimum(0.6 + (1 - entry) * alphas, 700)) * probs
        norm = slope * np.hypot(1 - entry, 2)
        style: Any = {**line(i), "marker": "", "linestyle": DASHES[i]}
        left.plot(alphas, probs, label=name, **style)
        right.plot(alphas, np.maximum(norm, FLOOR), label=name, **style)
    left.set(xscale="log", ylim=(0.5, 1.03), ylabel="probability of class 1")
    right.set(xscale="log", yscale="log", ylabel="norm of the gradient")
    for axis in (left, right):
        axis.minorticks_off()
        axis.set_xlabel(r"$\alpha$: factor of $x_1$")
    left.legend(loc="center right")
    add_title(
        figure, "No entry of V is zero, yet with equal slopes the gradient stays at 0.4576 for ever"
    )
    return figure
