"""Plots of what a shift does: curves over strengths, confident answers, entropies."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.evaluation.under_shift import Along, Confident, Entropies
from nescio.report.plots.look import COLORS, DASHES, GRAY, label, line, panels, per_cent, with_look

TITLES = {
    "accuracy": "accuracy",
    "nll": "NLL, nats",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "mean_max_confidence": "mean maximum confidence",
    "rmse": "root mean squared error",
}
SHARES = ("accuracy", "ece", "mean_max_confidence")
DECISIONS = {"answered": "answered", "unsure": "unsure", "ood": "called outside"}


@with_look
def curves(found: Along) -> Figure:
    """A panel a metric, a line a predictor; then coverage, and risk and decisions of the guards."""
    result = found.result
    metrics = [key for key in TITLES if any(key in one for one in result["predictors"].values())]
    extra = [key for key in ("covered", "size") if result["sets"]]
    kinds = [*metrics, *extra, *(["risk", *DECISIONS] if result["guards"] else [])]
    title = f"Under {result['shift'].replace('_', ' ')}: {result['description']}"
    figure, axes = panels(len(kinds), height=3.2, title=title)
    for axis, kind in zip(axes, kinds, strict=True):
        group = "predictors" if kind in metrics else "sets" if kind in extra else "guards"
        start = len(result["predictors"]) if group == "guards" else 0  # no predictor's color
        _panel(axis, found.strengths, result[group], kind, start)
        axis.set_xlabel("strength")
        axis.set_xticks(found.strengths)
    for members in (metrics, extra, ["risk"]):  # names differ from group to group
        first = [axis for axis, kind in zip(axes, kinds, strict=True) if kind in members][:1]
        for axis in first:
            axis.legend(fontsize=9, loc="best")
    return figure


def _panel(
    axis: Axes, strengths: list[float], parts: Mapping[str, Any], kind: str, start: int
) -> None:
    for place, (name, numbers) in enumerate(parts.items(), start):
        if kind not in numbers:
            continue
        look = line(place)
        axis.plot(strengths, _floats(numbers[kind]), label=label(name), **look)
        if kind in ("covered", "risk"):
            ends = [_floats(numbers[end]) for end in ("low", "high")]
            axis.fill_between(strengths, *ends, color=look["color"], alpha=0.15, linewidth=0)
    words = {"covered": "sets that hold the target", "size": "mean size of sets"}
    words |= {"risk": "errors among the answers", **DECISIONS}
    axis.set_title({**TITLES, **words}[kind], loc="left")
    if kind in (*SHARES, "covered", "risk", *DECISIONS):
        per_cent(axis.yaxis)
        top = None if kind in ("ece", "risk") else 1.03
        axis.set_ylim(-0.02 if top else 0, top)


@with_look
def confident_answers(found: Mapping[str, Confident]) -> Figure:
    """Accuracy above a confidence with OOD inputs as wrong, and how many inputs are left."""
    title = "Accuracy on confident inputs: every answer to an input from outside is wrong"
    figure, axes = panels(2, height=4.2, title=title)
    for place, (name, one) in enumerate(found.items()):
        axes[0].plot(one.thresholds, one.accuracy, label=label(name), **line(place))
        axes[1].plot(one.thresholds, one.answered_ood, label=label(name), **line(place))
    for axis, words in zip(axes, ("accuracy", "share of OOD inputs answered"), strict=True):
        axis.set_title(words, loc="left")
        axis.set_xlabel("confidence at least")
        axis.set_ylim(-0.02, 1.03)
        per_cent(axis.yaxis)
    axes[0].legend(fontsize=9)
    return figure


@with_look
def entropy_histograms(found: Mapping[str, Entropies], *, in_dist: str, ood: str) -> Figure:
    """A panel a predictor: predictive entropy of inputs from inside (filled) and outside."""
    title = f"Predictive entropy: {in_dist} filled, {ood} as a line; further right is less sure"
    figure, axes = panels(len(found), height=3.3, title=title)
    top = max(float(max(one.in_dist.max(), one.ood.max())) for one in found.values())
    for axis, (name, one) in zip(axes, found.items(), strict=True):
        axis.stairs(one.in_dist, one.edges, fill=True, color="#bbbbbb", label=label(in_dist))
        axis.stairs(
            one.ood, one.edges, color=COLORS[1], linestyle=DASHES[0], linewidth=1.8,
            label=label(ood),
        )  # fmt: skip
        axis.axvline(math.log(2), color=GRAY, linestyle=":", linewidth=1)
        axis.set_title(label(name), loc="left")
        axis.set(xlabel="entropy, nats (dotted: log 2)", xlim=(0, one.edges[-1]))
        axis.set_ylim(0, 1.05 * top)
        per_cent(axis.yaxis)
    axes[0].set_ylabel("share of inputs")
    axes[0].legend(fontsize=9)
    return figure


def _floats(values: Any) -> Any:
    return np.array([math.nan if value is None else float(value) for value in values])
