"""Plots of what a shift does: curves over strengths, confident answers, entropies."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.evaluation.under_shift import Confident, Entropies, ShiftCurves
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
COVERAGE = {"covered": "sets that hold the target", "size": "mean size of sets"}
DECISIONS = {
    "risk": "errors among the answers", "answered": "answered", "unsure": "unsure",
    "ood": "called OOD",
}  # fmt: skip


@with_look
def curves(found: ShiftCurves, metrics: Sequence[str] = tuple(TITLES)) -> Figure:
    """One panel per metric, one line per predictor; then coverage, risk and decisions of guards."""
    quality = [key for key in metrics if found.subjects(key)]
    covered = [key for key in COVERAGE if found.subjects(key)]
    decided = [key for key in DECISIONS if found.subjects(key)]
    kinds = [*quality, *covered, *decided]
    title = f"Under {found.shift.replace('_', ' ')}: {found.description}"
    figure, axes = panels(len(kinds), height=3.2, title=title)
    predictors = len({name for key in quality for name in found.subjects(key)})
    for axis, kind in zip(axes, kinds, strict=True):
        _panel(axis, found, kind, predictors if kind in decided else 0)  # no predictor's color
        axis.set_xlabel("strength")
        axis.set_xticks(found.strengths)
    for group in (quality, covered, decided[:1]):  # names differ from group to group
        first = [axis for axis, kind in zip(axes, kinds, strict=True) if kind in group][:1]
        for axis in first:
            axis.legend(fontsize=9, loc="best")
    return figure


def _panel(axis: Axes, found: ShiftCurves, kind: str, start: int) -> None:
    for index, name in enumerate(found.subjects(kind), start):
        look = line(index)
        axis.plot(found.strengths, _floats(found.curve(name, kind)), label=label(name), **look)
        if kind in ("covered", "risk"):
            low, high = (_floats(found.curve(name, kind, end)) for end in ("low", "high"))
            axis.fill_between(
                found.strengths, low, high, color=look["color"], alpha=0.15, linewidth=0
            )
    axis.set_title({**TITLES, **COVERAGE, **DECISIONS}[kind], loc="left")
    if kind in (*SHARES, "covered", *DECISIONS):
        per_cent(axis.yaxis)
        top = None if kind in ("ece", "risk") else 1.03
        axis.set_ylim(-0.02 if top else 0, top)


@with_look
def confident_answers(found: Mapping[str, Confident]) -> Figure:
    """Accuracy above a confidence with OOD inputs as wrong, and how many inputs are left."""
    title = "Accuracy on confident inputs: every answer to an OOD input is wrong"
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
    """One panel per predictor: predictive entropy of test inputs (filled) and OOD inputs."""
    title = f"Predictive entropy: {in_dist} filled, {ood} as a line; further right is less certain"
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
