"""Risk against coverage, precision against recall, and histograms of right and wrong answers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nescio.metrics.selective import grouped, risk_coverage
from nescio.report.drawing import COLOURS, DASHES, GREY, label, panels, per_cent, with_look
from nescio.report.tables import Result

Array = NDArray[Any]
POINTS = 500  # of a curve at most
RIGHT, WRONG = COLOURS[2], COLOURS[1]
BINS = 40


@with_look
def risk_coverage_curves(result: Result, scores: Mapping[str, Array], wrong: Array) -> Figure:
    """A curve a score, all of it on the left and the surest answers' errors on the right."""
    title = f"Errors among the surest answers, {result['data']}"
    figure, axes = panels(2, height=4.6, title=title)
    perfect = risk_coverage(wrong, wrong)
    for axis in axes:
        for i, (name, values) in enumerate(scores.items()):
            curve = risk_coverage(values, wrong)
            area = 1000 * result["scores"][name]["metrics"]["aurc"]["value"]
            shown = _spread(len(curve.risk))
            axis.plot(
                curve.coverage[shown],
                curve.risk[shown],
                label=f"{label(name, 40)}: {area:.2f}",
                **_style(i),
            )
        axis.plot(perfect.coverage, perfect.risk, color=GREY, linewidth=0.9, label="perfect order")
        axis.set_xlabel("coverage: share of inputs answered")
        axis.set_ylabel("risk: share of errors among them")
        per_cent(axis.xaxis)
        per_cent(axis.yaxis)
    most = max(risk_coverage(v, wrong).risk[len(v) // 20 :].max() for v in scores.values())
    axes[0].set(xlim=(0, 1), ylim=(0, 1.05 * most))
    axes[0].set_title("all coverages", loc="left")
    rate = float(wrong.mean())
    low = max(0.5, 1 - 6 * rate)
    axes[1].set(xlim=(low, 1), ylim=(0, 1.05 * rate))
    axes[1].set_title("the last ones to be answered", loc="left")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, title="AURC in thousandths")
    return figure


@with_look
def precision_recall_curves(result: Result, scores: Mapping[str, Array], wrong: Array) -> Figure:
    """A curve a score; errors are what is looked for, least sure first."""
    figure, axes = panels(1, height=5.0, title=f"Finding the errors, {result['data']}")
    axis = axes[0]
    for i, (name, values) in enumerate(scores.items()):
        recall, precision = precision_recall(values, wrong)
        area = 100 * result["scores"][name]["metrics"]["ap_error"]["value"]
        axis.step(recall, precision, where="pre", label=f"{label(name, 40)}: {area:.1f}",
                  **_style(i))  # fmt: skip
    rate = float(wrong.mean())
    axis.axhline(rate, color=GREY, linewidth=0.9, linestyle=":", label="chance")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_xlabel("recall: share of the errors that is found")
    axis.set_ylabel("precision: share of errors among the flagged")
    per_cent(axis.xaxis)
    per_cent(axis.yaxis)
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", title="AP of errors, %")
    return figure


@with_look
def confidence_histograms(result: Result, confidence: Mapping[str, Array], wrong: Array) -> Figure:
    """Maximum probabilities of right and wrong answers; a panel before and one after temperature.

    Each group is drawn as shares of its own, so that few errors can be seen beside many successes.
    """
    title = f"Maximum probability of right and of wrong answers, {result['data']}"
    figure, axes = panels(len(confidence), height=3.8, title=title)
    for axis, (when, values) in zip(axes, confidence.items(), strict=True):
        edges = np.linspace(1 / 10 if values.min() >= 0.1 else 0.0, 1, BINS + 1)
        for text, group, colour, fill in (
            ("right", values[~wrong], RIGHT, True),
            ("wrong", values[wrong], WRONG, False),
        ):
            _histogram(axis, group, edges, colour, fill, f"{text} ({len(group):,})")
        temperature = result["temperature"]
        after = "" if when == "before" else f" (T = {temperature:.2f})"
        overlap = 100 * float((values[wrong] >= np.median(values[~wrong])).mean())
        sure = 100 * float((values[wrong] >= 0.9).mean())
        axis.set_title(f"{when} temperature{after}", loc="left")
        axis.set_xlabel(f"maximum probability; {sure:.0f} % of errors are at 90 % or above,\n"
                        f"{overlap:.0f} % above the median of the right answers")  # fmt: skip
        axis.set_ylabel("share of the group (log scale)")
        axis.set(xlim=(edges[0], 1), yscale="log", ylim=(0.5 / len(wrong), 1.5))
        axis.set_xticks(np.arange(0.2, 1.1, 0.2))
        per_cent(axis.xaxis)
        per_cent(axis.yaxis)
        axis.legend(loc="best")
    return figure


def precision_recall(score: Array, wrong: Array) -> tuple[Array, Array]:
    """Recall and precision of errors at falling thresholds, ties together."""
    found = grouped(score, wrong)
    errors, cases = found.errors[::-1].cumsum(), found.cases[::-1].cumsum()
    return np.concatenate([[0.0], errors / errors[-1]]), np.concatenate(
        [[errors[0] / cases[0]], errors / cases]
    )


def _histogram(axis: Axes, values: Array, edges: Array, colour: str, fill: bool, text: str) -> None:
    counts, _ = np.histogram(values, edges)
    shares = counts / max(1, len(values))
    if fill:
        axis.stairs(shares, edges, fill=True, color=colour, alpha=0.35, label=text)
    axis.stairs(shares, edges, color=colour, linewidth=1.6, label=None if fill else text)


def _spread(count: int) -> Array:
    """Places of at most so many points, even over all."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))


def _style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.6,
    }
