"""Pictures of part `segmentation`: scenes in five columns, classes, and errors by uncertainty."""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio import metrics
from nescio.data import CAMVID_CLASSES
from nescio.models import UncertaintyMaps
from nescio.report.plots.look import COLORS, DASHES, GRAY, panels, per_cent, with_look
from nescio.report.plots.segmentation_plot import segmentation_figure
from nescio_papers.robust_deep_learning.segmentation_measures import (
    ALEATORIC,
    EPISTEMIC,
    NAMES,
    Quality,
    by_class,
    frame_means,
    right,
    wrong,
)
from nescio_papers.robust_deep_learning.segmentation_network import IGNORED, Answers

PALETTE = (
    "#87b5d9",
    "#8a3b3b",
    "#c9b458",
    "#6b4c86",
    "#d0a3bf",
    "#5f7d33",
    "#e08a1e",
    "#3d3d66",
    "#4a0d8f",
    "#00a0a0",
    "#d62728",
)  # fmt: skip  in the order of the classes
SHOWN = 4  # scenes
POINTS = 400  # of a curve
TICKS = (0.003, 0.01, 0.03, 0.1, 0.3)  # shares


def scenes(found: Answers) -> Figure:
    """Some test frames, evenly from the best to the worst by the share of wrong pixels."""
    order = frame_means(found.sampled.labels != found.y, found.y != IGNORED).argsort()
    chosen = order[torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).long()]
    figure: Figure = segmentation_figure(
        found.x[chosen],
        found.y[chosen],
        found.sampled[chosen],
        names=CAMVID_CLASSES,
        colors=PALETTE,
        ignore_index=IGNORED,
        title="CamVid: the test frames with the fewest wrong pixels, one and two thirds of the way "
        "down, and with the most",
    )
    return figure


@with_look
def classes(found: Quality, maps: UncertaintyMaps, y: Tensor, shares: list[float]) -> Figure:
    """IoU of each class, and its uncertainties against its share of the training pixels."""
    figure, (left, middle, last) = panels(3, height=3.6, title="Classes, from frequent to rare")
    order = np.argsort(shares)
    names = [CAMVID_CLASSES[index] for index in order]
    left.barh(names, np.nan_to_num(np.array(found.by_class)[order]), color=COLORS[0])
    left.axvline(found.mean_iou.value, color=GRAY, linestyle="--")
    left.set(xlim=(0, 1), xlabel="intersection over union; dashed: mean")
    for axis, name, color in ((middle, ALEATORIC, COLORS[1]), (last, EPISTEMIC, COLORS[2])):
        values = by_class(maps, y, name)
        axis.scatter(shares, values, color=color, zorder=3)
        for share, value, label in zip(shares, values, CAMVID_CLASSES, strict=True):
            if np.isfinite(value):
                below = _is_crowded(share, value, shares, values)
                axis.annotate(label, (share, value), xytext=(3, -9 if below else 3),
                              textcoords="offset points", fontsize=8)  # fmt: skip
        axis.margins(x=0.2, y=0.1)
        axis.set(xscale="log", xlabel="share of the training pixels", title=NAMES[name])
        axis.set(ylim=(0, None), ylabel="mean over the pixels of the class, nats", xticks=TICKS)
        axis.minorticks_off()
        per_cent(axis.xaxis)
    return figure


def _is_crowded(share: float, value: float, shares: list[float], values: list[float]) -> bool:
    """Whether a label above the point would run into that of a class just above it."""
    height = float(np.nanmax(values)) / 15
    return any(
        share / 3 < other < 3 * share and 0 < above - value < height
        for other, above in zip(shares, values, strict=True)
    )


@with_look
def errors(found: Answers) -> Figure:
    """Wrong pixels among the most certain ones, and confidence against accuracy."""
    title = "Wrong pixels: left out in the order of an uncertainty, and confidence against accuracy"
    figure, (left, second) = panels(2, height=3.6, title=title)
    mistakes = wrong(found.sampled, found.y)
    for index, (name, words) in enumerate(NAMES.items()):
        curve = metrics.risk_coverage(getattr(found.sampled, name), mistakes, ignore_index=IGNORED)
        few = np.linspace(0, len(curve.risk) - 1, POINTS).astype(int)[POINTS // 20 :]
        left.plot(curve.coverage[few], curve.risk[few], label=words, color=COLORS[index],
                  linestyle=DASHES[index])  # fmt: skip
    left.set(xlabel="share of pixels answered", ylabel="share of them wrong", ylim=(0, None))
    left.legend(fontsize=9)
    sides = {"MC dropout": found.sampled, "dropout off": found.plain}
    for index, (words, maps) in enumerate(sides.items()):
        bins = metrics.reliability(
            maps.confidence, right(maps, found.y), bins=15, ignore_index=IGNORED
        )
        filled = np.asarray(bins.count) > 0
        second.plot(np.asarray(bins.confidence)[filled], np.asarray(bins.accuracy)[filled],
                    "o-", color=COLORS[index], label=words, markersize=4)  # fmt: skip
    second.plot([0, 1], [0, 1], color=GRAY, linestyle=":")
    second.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    second.legend()
    for axis in (left.xaxis, left.yaxis, second.xaxis, second.yaxis):
        per_cent(axis)
    return figure
