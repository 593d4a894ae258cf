"""The plots of an audit, each titled with what it shows."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.report import findings
from nescio.report.calibrated import reliability_diagrams as reliability_diagrams
from nescio.report.distributions import confidence_histograms as confidence_histograms
from nescio.report.drawing import GREY, label, line, panels, per_cent, with_look
from nescio.report.drawing import svg as svg
from nescio.report.risk_coverage import risk_coverage as risk_coverage
from nescio.report.shift import curves
from nescio.report.tables import Result, far_kinds, followed, known
from nescio.shifting import Along

ALPHA = "factor on the test inputs (log scale)"
FIRST = 0.01  # where a ray that is sure from its start is drawn
TIGHT = 0.25  # lines closer together than this get a second, zoomed panel


@with_look
def confidence_along_ray(result: Result) -> Figure:
    """Mean maximum confidence along alpha * x, a line for each predictor."""
    found = findings.scaled(result)
    curves = {name: numbers(part["scaling"]["mean_max_confidence"]) for name, part in found.items()}
    values = [v for curve in curves.values() for v in curve if not math.isnan(v)]
    zoom = bool(values) and max(values) - min(values) < TIGHT
    title = findings.far_confidence(result)
    figure, axes = panels(1 + zoom, height=4, title=title)
    for axis in axes:
        for i, (name, curve) in enumerate(curves.items()):
            legend = f"{label(name, 24)}: {_share(curve[0])} → {_share(curve[-1])}"
            _ray(axis, i, found[name]["scaling"]["alpha"], curve, legend)
    per_cent(axes[0].yaxis)
    axes[0].set_ylim(0, 1.03)
    axes[0].set_ylabel("mean maximum confidence")
    for classes in sorted({part["classes"] for part in found.values()}):
        _mark(axes[0], 1 / classes, f"1/{classes}: “I do not know”")
    if zoom:
        per_cent(axes[1].yaxis)
        axes[1].set_title("the same lines, closer", loc="left")
    _legend(figure, axes[0])
    return figure


@with_look
def separation_along_ray(result: Result) -> Figure:
    """AUROC of the far inputs against the test data along alpha * x, a panel for each measure."""
    measures, found = findings.telling_measures(result), findings.scaled(result)
    title = findings.far_separation(result)
    figure, axes = panels(len(measures), height=4, title=title)
    for axis, measure in zip(axes, measures, strict=True):
        for i, (name, part) in enumerate(found.items()):
            curve = part["scaling"]["auroc"].get(measure)
            alpha = part["scaling"]["alpha"]
            _ray(axis, i, alpha, numbers(curve or [None] * len(alpha)), label(name))
        axis.set_title(measure.replace("_", " "), loc="left")
        axis.set_ylim(-0.03, 1.03)
        _mark(axis, 0.5, "chance")
        axis.text(0.98, 0.52, "above: far looks less certain", **_note(axis, "bottom"))
        axis.text(0.98, 0.48, "below: far looks more certain", **_note(axis, "top"))
    axes[0].set_ylabel("AUROC, far against test")
    _legend(figure, axes[0])
    return figure


@with_look
def far_field(result: Result) -> Figure:
    """Share of rays that are sure, and that bend no more, by a factor; a panel a kind of rays."""
    kinds = far_kinds(result)
    figure, axes = panels(2 * len(kinds), height=3.4, title=findings.far_certainty(result))
    for axis, kind in zip(axes, 2 * kinds, strict=True):
        upper = axis in axes[: len(kinds)]
        for i, (name, rays) in enumerate(followed(result).items()):
            if kind in rays:
                draw = _reached if upper else _settled
                draw(axis, i, label(name, 24), rays[kind])
        axis.set_title(f"{kind}: {'sure' if upper else 'settled'}", loc="left")
        axis.set(ylim=(-0.03, 1.03), xlabel="factor (log scale)", xscale="log")
        per_cent(axis.yaxis)
    for axis in (axes[0], axes[len(kinds)]):
        axis.set_ylabel("share of rays by then")
    _legend(figure, axes[0])
    return figure


def under_shift(result: Result) -> Figure:
    """Accuracy, calibration error and what the guard does, along a shift."""
    shift = result["shift"]
    kept = {
        name: {key: numbers[key] for key in ("accuracy", "ece")}
        for name, numbers in shift["predictors"].items()
    }
    figure: Figure = curves(Along({**shift, "predictors": kept}))
    return figure


def _reached(axis: Axes, i: int, legend: str, part: Result) -> None:
    """The distribution of the factor: solid to 99.9 %, dotted to 95 %."""
    _distribution(axis, i, part["factor"]["0.999"]["quantiles"], "-", legend)
    _distribution(axis, i, part["factor"]["0.95"]["quantiles"], ":", "_")


def _settled(axis: Axes, i: int, legend: str, part: Result) -> None:
    _distribution(axis, i, part["radius"], "-", legend)


def _distribution(
    axis: Axes, i: int, quantiles: Sequence[float | None], style: str, legend: str
) -> None:
    values = numbers(quantiles)
    pairs = [(v, k / (len(values) - 1)) for k, v in enumerate(values) if not math.isnan(v)]
    look = {**line(i), "linestyle": style, "markersize": 4 if style == "-" else 0}
    x, y = [max(v, FIRST) for v, _ in pairs], [share for _, share in pairs]
    axis.plot(x, y, label=legend, markevery=(i % 4, 4), **look)


def numbers(values: Sequence[float | None]) -> list[float]:
    """The values as floats, not a number where one is missing."""
    return [math.nan if known(value) is None else float(value or 0) for value in values]


def _ray(axis: Axes, i: int, alpha: Sequence[float], values: Sequence[float], legend: str) -> None:
    axis.set_xscale("log", nonpositive="mask")
    marks = (i % 4, 4) if len(alpha) > 8 else None  # staggered, so that lines on top show
    axis.plot(alpha, values, label=legend, markevery=marks, **line(i))
    axis.set_xlabel(ALPHA)


def _mark(axis: Axes, height: float, text: str) -> None:
    """A dashed reference line with its meaning."""
    axis.axhline(height, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    place: Any = {"ha": "left", "va": "bottom", "color": GREY, "fontsize": 10}
    axis.text(0.02, height + 0.01, text, transform=axis.get_yaxis_transform(), **place)


def _note(axis: Axes, side: str) -> dict[str, Any]:
    place = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": side}
    return {**place, "color": GREY, "fontsize": 10, "style": "italic"}


def _share(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:.1f} %"


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    room = 72 * figure.get_figwidth() / (6.6 * max(map(len, labels)) + 60)  # points a column
    columns = min(3, max(1, int(room)))
    rows = -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + 0.25 * (rows - 1))
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, handlelength=3.5)
