"""The pictures of the audit of a regression."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.evaluation import RegressionFindings, RegressorFindings
from nescio.report import regression_verdict
from nescio.report.plots.audit_plots import numbers
from nescio.report.plots.look import (
    BAND,
    COLORS,
    GRAY,
    label,
    line,
    panels,
    per_cent,
    with_look,
)

DASHED: Any = {"color": GRAY, "linestyle": (0, (4, 3)), "linewidth": 1.2}
BLUE, VERMILLION = COLORS[:2]
SHOWN = 120  # intervals in a panel
PANELS = 3  # predictors that have one


@with_look
def coverage_curves(found: RegressionFindings) -> Figure:
    """The share of test values in predicted intervals against their probability."""
    title = regression_verdict.coverage_title(found)
    figure, axes = panels(len(found.predictors), height=3.9, title=title)
    for i, (axis, (name, one)) in enumerate(zip(axes, found.predictors.items(), strict=True)):
        curve = one.test.curve
        low = [max(0.0, level - curve.band) for level in curve.levels]
        high = [min(1.0, level + curve.band) for level in curve.levels]
        axis.fill_between(curve.levels, low, high, color=BAND, linewidth=0,
                          label="expected if calibrated, 95 %")  # fmt: skip
        axis.plot([0, 1], [0, 1], label="as many as it says", **DASHED)
        style = {**line(i), "clip_on": False, "zorder": 3}
        axis.plot(curve.levels, curve.held, label="test values held", **style)
        axis.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[0, 0.25, 0.5, 0.75, 1])
        axis.set_xlabel("probability of the interval")
        axis.set_title(label(name), loc="left")
        per_cent(axis.xaxis)
        per_cent(axis.yaxis)
    axes[0].set_ylabel("test values in it")
    _legend(figure, axes[0])
    return figure


@with_look
def intervals_by_prediction(found: RegressionFindings) -> Figure:
    """Predicted means with 90 % intervals, and the true values, in rising order of the mean."""
    shown = dict(list(found.predictors.items())[:PANELS])
    title = regression_verdict.examples_title(found)
    figure, axes = panels(len(shown), height=4.2, title=title)
    for axis, (name, one) in zip(axes, shown.items(), strict=True):
        step = max(1, -(-len(one.examples) // SHOWN))
        _intervals(axis, one, step)
        axis.set_title(label(name), loc="left")
        axis.set_xlabel("test samples, by their predicted mean")
        axis.set_xticks([])
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel("target" if len(one.targets) < 2 else "first target")
    _legend(figure, axes[0])
    return figure


def _intervals(axis: Axes, one: RegressorFindings, step: int) -> None:
    some = one.examples[::step]
    at = list(range(len(some)))
    low, high = [e.low for e in some], [e.high for e in some]
    axis.vlines(at, low, high, color=BLUE, linewidth=1.6, alpha=0.45, label="90 % interval")
    axis.plot(at, [e.mean for e in some], color=BLUE, linewidth=1.6, label="predicted mean")
    held = [e.low <= e.truth <= e.high for e in some]
    for inside, color, marker, text in (
        (True, "black", "o", "true value"),
        (False, VERMILLION, "X", "true value, missed"),
    ):
        rows = [k for k in at if held[k] == inside]
        axis.plot(rows, [some[k].truth for k in rows], linestyle="", marker=marker, color=color,
                  markersize=3 if inside else 6, label=text)  # fmt: skip


@with_look
def spread_and_error(found: RegressionFindings) -> Figure:
    """The absolute error of each sample against its predicted deviation, on one scale."""
    shown = dict(list(found.predictors.items())[:PANELS])
    title = regression_verdict.spread_title(found)
    figure, axes = panels(len(shown), height=4.2, title=title)
    for axis, one_name in zip(axes, shown, strict=True):
        one = shown[one_name]
        spread = [e.deviation for e in one.examples]
        error = [abs(e.truth - e.mean) for e in one.examples]
        axis.plot(spread, error, linestyle="", marker="o", markersize=4, alpha=0.5, color=BLUE,
                  label="test sample")  # fmt: skip
        ends = [min(spread), max(spread)]
        room = 0.05 * (ends[1] - ends[0]) or 0.05 * ends[1] or 1.0
        ends = [max(0.0, ends[0] - room), ends[1] + room]
        for factor, style, text in ((1.0, "--", "1 deviation"), (2.0, ":", "2 deviations")):
            axis.plot(ends, [factor * end for end in ends], color=GRAY, linestyle=style,
                      linewidth=1.4, label=text)  # fmt: skip
        axis.set(xlim=ends, ylim=(0, 1.05 * max(*error, 2 * ends[1])))
        axis.set_xlabel("predicted deviation")
        axis.set_title(label(one_name), loc="left")
    axes[0].set_ylabel("absolute error")
    _legend(figure, axes[0])
    return figure


@with_look
def error_by_coverage(found: RegressionFindings) -> Figure:
    """The mean error of the samples with the smallest predicted deviations, by their share."""
    curves = {n: c for n, one in found.predictors.items() if (c := one.spread.curve) is not None}
    halves = [_at_half(curve.coverage, curve.error) / curve.error[-1] for curve in curves.values()]
    low, high = (f"{100 * end:.0f} %" for end in (min(halves), max(halves)))
    ends = low if low == high else f"{low} to {high}"
    title = f"The more certain half of the predictions has {ends} of the mean error of all"
    figure, (axis,) = panels(1, height=3.8, title=title)
    for i, (name, curve) in enumerate(curves.items()):
        pairs = zip(curve.coverage, curve.error, strict=True)
        points = [(share, error) for share, error in pairs if share >= 0.02]
        axis.plot(*zip(*points, strict=True), label=label(name, 40), **{**line(i), "marker": ""})
    axis.set(xlim=(0, 1), ylim=(0, None))
    axis.set_xlabel("share of samples, those of the smallest predicted deviation first")
    axis.set_ylabel("mean error (deviations of the targets)")
    per_cent(axis.xaxis)
    figure.legend(loc="outside right upper")
    return figure


def _at_half(coverage: tuple[float, ...], error: tuple[float, ...]) -> float:
    return next(e for c, e in zip(coverage, error, strict=True) if c >= 0.5)


@with_look
def spread_along_ray(found: RegressionFindings) -> Figure:
    """The median predicted deviation and the median distance of the mean along alpha * x."""
    rays = {name: one.scaling for name, one in found.predictors.items() if one.scaling is not None}
    figure, axes = panels(2, height=4, title=regression_verdict.ray_title(found))
    for i, (name, ray) in enumerate(rays.items()):
        for axis, values in zip(axes, (ray.deviation, ray.distance), strict=True):
            axis.plot(ray.alpha, numbers(values), label=label(name, 30), **line(i))
    for axis, what in zip(axes, ("predicted deviation", "distance of the mean"), strict=True):
        axis.set(xscale="log", yscale="log")
        axis.set_xlabel("factor on the test inputs (log scale)")
        axis.set_title(what, loc="left")
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    axes[0].set_ylabel("deviations of the targets (log scale)")
    _legend(figure, axes[0])
    return figure


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=min(4, len(labels)))
