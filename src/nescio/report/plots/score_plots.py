"""Curves and histograms of scores: ROC, precision-recall, risk-coverage."""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nescio.evaluation.compare.comparison import Comparison, Scores
from nescio.metrics import risk_coverage
from nescio.metrics.selective import grouped
from nescio.report.plots.look import COLORS, DASHES, GRAY, label, panels, per_cent, with_look

# ROC curves and distributions of scores of a comparison of detectors.

Array = NDArray[Any]
POINTS = 400  # of a curve
BINS = 60  # at most
EDGE = 0.005  # share of the scores beyond either end of a histogram


@with_look
def roc_curves(found: Comparison, scores: Scores) -> Figure:
    """One panel per OOD set, one curve per subject; false alarms on a logarithmic scale."""
    sets, data = _sets(found), found.about.data
    title = f"Caught and false alarms: {data} against what the network does not know"
    figure, axes = panels(len(sets), height=4.9, title=title)
    least = 1 / max(len(by_set[data]) for by_set in scores.values())
    for axis, row in zip(axes, sets, strict=True):
        for i, (name, by_set) in enumerate(scores.items()):
            false, true = curve(by_set[data], by_set[row])
            text = f"{label(name, 32)}: {_area(found.value(name, row, 'auroc'))}"
            axis.plot(np.maximum(false, least), true, label=text, **_style(i))
        chance = np.geomspace(least, 1, 50)
        axis.plot(chance, chance, color=GRAY, linewidth=0.9, linestyle=":")
        axis.set(xscale="log", xlim=(least, 1), ylim=(0, 1.02))
        axis.set_title(label(row, 34), loc="left")
        axis.set_xlabel(f"share of {label(data, 20)} flagged (log scale)")
        axis.set_ylabel("share of OOD data caught")
        axis.legend(title="AUROC", fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.2))
    return figure


@with_look
def score_histograms(found: Comparison, scores: Scores) -> Figure:
    """One panel per subject; the test data filled, each OOD set as a line."""
    sets, data = _sets(found), found.about.data
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


def _sets(found: Comparison) -> list[str]:
    return [one.name for one in found.sets if one.kind in ("ood", "near") and one.absent is None]


def png(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def curve(in_dist: Array, ood: Array) -> tuple[Array, Array]:
    """Shares of test and OOD scores at or above falling thresholds, from (0, 0) to (1, 1)."""
    ends = np.unique(np.concatenate([in_dist, ood]))[::-1]
    if len(ends) > POINTS:  # even in rank among the test scores, closest at the top
        tops = np.unique(np.geomspace(1, len(in_dist), POINTS // 2).astype(int))
        spread = np.linspace(0, len(ood) - 1, POINTS // 2).astype(int)
        picked = [np.sort(in_dist)[::-1][tops - 1], np.sort(ood)[spread], ends[-1:]]
        ends = np.unique(np.concatenate(picked))[::-1]
    false, true = (_at_or_above(np.sort(side), ends) for side in (in_dist, ood))
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
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.6,
    }


def _area(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.3f}" if value < 0.9995 else f"{value:.4f}"


# Risk against coverage, precision against recall, and histograms of right and wrong answers.

RISK_POINTS = 500  # of a curve at most
RIGHT, WRONG = COLORS[2], COLORS[1]
CONFIDENCE_BINS = 40


@with_look
def risk_coverage_curves(found: Comparison, scores: Scores) -> Figure:
    """One curve per score, all coverages on the left, the last answers on the right."""
    wrong, values = _errors(found, scores)
    title = f"Errors among the most confident answers, {found.about.data}"
    figure, axes = panels(2, height=4.6, title=title)
    curves = {name: risk_coverage(one, wrong) for name, one in values.items()}
    perfect = risk_coverage(wrong, wrong)
    for axis in axes:
        for i, (name, curve) in enumerate(curves.items()):
            shown = _spread(len(curve.risk))
            text = f"{label(name, 40)}: {1000 * found.value(name, metric='aurc'):.2f}"
            axis.plot(curve.coverage[shown], curve.risk[shown], label=text, **_style(i))
        axis.plot(perfect.coverage, perfect.risk, color=GRAY, linewidth=0.9, label="perfect order")
        axis.set_xlabel("coverage: share of inputs answered")
        axis.set_ylabel("risk: share of errors among them")
        per_cent(axis.xaxis)
        per_cent(axis.yaxis)
    most = max(curve.risk[len(wrong) // 20 :].max() for curve in curves.values())
    rate = float(wrong.mean())
    axes[0].set(xlim=(0, 1), ylim=(0, 1.05 * most))
    axes[0].set_title("all coverages", loc="left")
    axes[1].set(xlim=(max(0.5, 1 - 6 * rate), 1), ylim=(0, 1.05 * rate))
    axes[1].set_title("the last ones to be answered", loc="left")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, title="AURC in thousandths")
    return figure


@with_look
def precision_recall_curves(found: Comparison, scores: Scores) -> Figure:
    """One curve per score; errors are what is looked for, the largest score first."""
    wrong, values = _errors(found, scores)
    figure, axes = panels(1, height=5.0, title=f"Finding the errors, {found.about.data}")
    axis = axes[0]
    for i, (name, one) in enumerate(values.items()):
        recall, precision = precision_recall(one, wrong)
        text = f"{label(name, 40)}: {100 * found.value(name, metric='ap_error'):.1f}"
        axis.step(recall, precision, where="pre", label=text, **_style(i))
    axis.axhline(wrong.mean(), color=GRAY, linewidth=0.9, linestyle=":", label="chance")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_xlabel("recall: share of the errors that is found")
    axis.set_ylabel("precision: share of errors among the flagged")
    per_cent(axis.xaxis)
    per_cent(axis.yaxis)
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", title="AP of errors, %")
    return figure


@with_look
def confidence_histograms(found: Comparison, scores: Scores) -> Figure:
    """Maximum probabilities of right and wrong answers; one panel before and one after temperature.

    Each group is drawn as shares of its own, so that few errors can be seen beside many successes.
    """
    wrong, _ = _errors(found, scores)
    title = f"Maximum probability of right and of wrong answers, {found.about.data}"
    figure, axes = panels(len(found.confidence), height=3.8, title=title)
    for axis, (when, values) in zip(axes, found.confidence.items(), strict=True):
        edges = np.linspace(1 / 10 if values.min() >= 0.1 else 0.0, 1, CONFIDENCE_BINS + 1)
        _right_and_wrong(axis, values, wrong, edges)
        after = "" if when == "before" else f" (T = {found.about.temperature:.2f})"
        overlap = 100 * float((values[wrong] >= np.median(values[~wrong])).mean())
        high = 100 * float((values[wrong] >= 0.9).mean())
        axis.set_title(f"{when} temperature{after}", loc="left")
        axis.set_xlabel(f"maximum probability; {high:.0f} % of errors are at 90 % or above,\n"
                        f"{overlap:.0f} % above the median of the right answers")  # fmt: skip
        axis.set_ylabel("share of the group (log scale)")
        axis.set(xlim=(edges[0], 1), yscale="log", ylim=(0.5 / len(wrong), 1.5))
        axis.set_xticks(np.arange(0.2, 1.1, 0.2))
        per_cent(axis.xaxis)
        per_cent(axis.yaxis)
        axis.legend(loc="best")
    return figure


def _errors(found: Comparison, scores: Scores) -> tuple[Array, dict[str, Array]]:
    """Which answers are wrong, and the scores of the test data."""
    assert found.wrong is not None  # of the task "errors"
    return found.wrong, {name: by_set[found.about.data] for name, by_set in scores.items()}


def _right_and_wrong(axis: Axes, values: Array, wrong: Array, edges: Array) -> None:
    for text, group, color in (("right", values[~wrong], RIGHT), ("wrong", values[wrong], WRONG)):
        counts, _ = np.histogram(group, edges)
        shares, said = counts / max(1, len(group)), f"{text} ({len(group):,})"
        if color == RIGHT:
            axis.stairs(shares, edges, fill=True, color=color, alpha=0.35, label=said)
        axis.stairs(shares, edges, color=color, linewidth=1.6,
                    label=None if color == RIGHT else said)  # fmt: skip


def precision_recall(score: Array, wrong: Array) -> tuple[Array, Array]:
    """Recall and precision of errors at falling thresholds, ties together."""
    found = grouped(score, wrong)
    errors, samples = found.errors[::-1].cumsum(), found.samples[::-1].cumsum()
    return np.concatenate([[0.0], errors / errors[-1]]), np.concatenate(
        [[errors[0] / samples[0]], errors / samples]
    )


def _spread(count: int) -> Array:
    """At most 500 positions, even over all."""
    return np.unique(np.linspace(0, count - 1, min(count, RISK_POINTS)).astype(int))
