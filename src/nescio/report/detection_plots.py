"""ROC curves and distributions of scores of a comparison of detectors."""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nescio.report.drawing import COLOURS, DASHES, GREY, label, panels, with_look
from nescio.report.tables import Result

Array = NDArray[Any]
Scores = Mapping[str, Mapping[str, Array]]  # by detector and data set
POINTS = 400  # of a curve
BINS = 60  # at most
EDGE = 0.005  # share of the scores beyond either end of a histogram


@with_look
def roc_curves(result: Result, scores: Scores) -> Figure:
    """A panel an out-set, a curve a detector; the share of false alarms on a logarithmic scale."""
    sets, data = list(result["groups"]["all"]), result["data"]
    title = f"Caught and false alarms: {data} against what the network does not know"
    figure, axes = panels(len(sets), height=4.9, title=title)
    least = 1 / max(len(by_set[data]) for by_set in scores.values())
    for axis, row in zip(axes, sets, strict=True):
        for i, (name, by_set) in enumerate(scores.items()):
            false, true = curve(by_set[data], by_set[row])
            area = result["detectors"][name]["rows"][row]["auroc"]["value"]
            text = f"{label(name, 32)}: {_area(area)}"
            axis.plot(np.maximum(false, least), true, label=text, **_style(i))
        chance = np.geomspace(least, 1, 50)
        axis.plot(chance, chance, color=GREY, linewidth=0.9, linestyle=":")
        axis.set(xscale="log", xlim=(least, 1), ylim=(0, 1.02))
        axis.set_title(label(row, 34), loc="left")
        axis.set_xlabel(f"share of {label(data, 20)} flagged (log scale)")
        axis.set_ylabel("share of out-data caught")
        axis.legend(title="AUROC", fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.2))
    return figure


@with_look
def score_histograms(result: Result, scores: Scores) -> Figure:
    """A panel a detector; the data filled, each out-set as a line."""
    sets, data = list(result["groups"]["all"]), result["data"]
    title = "Scores: further right is further out; the outermost bins hold what lies beyond"
    figure, axes = panels(len(scores), height=3.3, title=title)
    for axis, (name, by_set) in zip(axes, scores.items(), strict=True):
        edges = bins([by_set[row] for row in (data, *sets)])
        _histogram(axis, by_set[data], edges, None, label(data))
        for i, row in enumerate(sets):
            _histogram(axis, by_set[row], edges, i, label(row))
        axis.set_title(label(name, 34), loc="left")
        axis.set_yticks([])
        axis.set_xlabel("score")
        axis.set_ylabel("density")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def curve(inside: Array, outside: Array) -> tuple[Array, Array]:
    """Shares of inside and outside at or above falling thresholds, from (0, 0) to (1, 1)."""
    ends = np.unique(np.concatenate([inside, outside]))[::-1]
    if len(ends) > POINTS:  # even in rank among the inside scores, closest at the top
        tops = np.unique(np.geomspace(1, len(inside), POINTS // 2).astype(int))
        spread = np.linspace(0, len(outside) - 1, POINTS // 2).astype(int)
        picked = [np.sort(inside)[::-1][tops - 1], np.sort(outside)[spread], ends[-1:]]
        ends = np.unique(np.concatenate(picked))[::-1]
    false, true = (_at_or_above(np.sort(side), ends) for side in (inside, outside))
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def bins(groups: Sequence[Array]) -> Array:
    """Edges of bins over nearly all scores of all groups."""
    finite = [group[np.isfinite(group)] for group in groups]
    ends = [np.quantile(g, [EDGE, 1 - EDGE]) for g in finite if len(g)]
    low, high = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (0.0, 1.0)
    if not low < high:
        low, high = low - 0.5, low + 0.5
    fewest = min(map(len, groups))
    return np.linspace(low, high, min(BINS, 10 + int(math.sqrt(fewest))) + 1)


def _at_or_above(ordered: Array, thresholds: Array) -> Array:
    return (len(ordered) - np.searchsorted(ordered, thresholds, "left")) / len(ordered)


def _histogram(axis: Axes, values: Array, edges: Array, place: int | None, text: str) -> None:
    shares, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    heights = shares / len(values) / (edges[1] - edges[0])
    if place is None:
        axis.stairs(heights, edges, fill=True, color="#cccccc", label=text)
        axis.stairs(heights, edges, color="#666666", linewidth=0.8)
    else:
        axis.stairs(heights, edges, label=text, **_style(place))


def _style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.6,
    }


def _area(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.3f}" if value < 0.9995 else f"{value:.4f}"
