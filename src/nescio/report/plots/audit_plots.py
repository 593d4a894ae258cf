"""The pictures of an audit."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from nescio.evaluation.audit.findings import Findings, RayFindings, RiskCurve
from nescio.metrics import Reliability
from nescio.report import audit_words
from nescio.report.audit_tables import calibrated, far_kinds, followed
from nescio.report.plots.adversarial_plot import adversarial_images
from nescio.report.plots.look import COLORS, GRAY, across, label, line, panels, per_cent, with_look
from nescio.report.plots.look import svg as svg
from nescio.report.plots.reliability_plot import reliability_diagram
from nescio.report.plots.shift_plot import curves
from nescio.report.render import known

# Calibration in an audit: a row before and after temperature, and the reliability diagrams.


def reliability_diagrams(found: Findings) -> Figure:
    """One panel per predictor, and one for the first after temperature."""
    panels: dict[str, Reliability] = {}
    parts = calibrated(found)
    for name, one in found.predictors.items():
        if not parts:
            panels[name] = one.reliability
        elif name in parts:
            before, after = parts[name].before, parts[name].after
            if before is not None:
                panels[name] = before.reliability
            if name == next(iter(parts)) and after is not None:
                panels[f"{name}, temperature"] = after.reliability
    figure: Figure = reliability_diagram(panels, title=audit_words.calibration(found))
    return figure


# Plots of how confidence is spread; one panel per predictor.

BLUE, VERMILLION = COLORS[:2]
ROW = 1.25  # from base line to base line, where all samples in one bin have height 1


@with_look
def confidence_histograms(found: Findings) -> Figure:
    """Share of samples at each confidence, a panel for each predictor, a row for each set."""
    predictors = found.predictors
    sets = list(dict.fromkeys(w for p in predictors.values() for w in p.confidence_histograms))
    tall = 0.8 + (0.7 if len(sets) < 6 else 0.45) * len(sets)
    title = audit_words.high_confidence(found)
    figure, axes = panels(len(predictors), height=tall, title=title)
    for i, (axis, (name, one)) in enumerate(zip(axes, predictors.items(), strict=True)):
        for row, where in enumerate(reversed(sets)):
            counts = one.confidence_histograms.get(where, ())
            _bars(axis, ROW * row, counts, BLUE if where == "test" else VERMILLION)
        axis.set_title(label(name), loc="left")
        names = [""] * len(sets)
        if i % across(len(predictors)) == 0:
            names = [label(_short(found, where), 22) for where in reversed(sets)]
        axis.set_yticks([ROW * k + 0.3 for k in range(len(sets))], names)
        axis.tick_params(axis="y", length=0)
        axis.set(xlim=(0, 1), ylim=(0, ROW * len(sets)), xlabel="confidence")
        axis.set_xticks([0, 0.5, 1])
        per_cent(axis.xaxis)
        axis.grid(visible=False)
        axis.axvline(1 / one.classes, color=GRAY, linestyle=":", linewidth=1.4)
    return figure


def _short(found: Findings, where: str) -> str:
    """A set's name without the options of the attack."""
    return "adversarial noise" if found.kind(where) == "adversarial" else where


def _bars(axis: Axes, base: float, counts: Sequence[int], color: str) -> None:
    """Bars on their own base line; a bar of full height holds all samples of the set."""
    total = sum(counts)
    axis.axhline(base, color="#bbbbbb", linewidth=0.8, zorder=0.5)
    if not total:
        return
    left = [k / len(counts) for k in range(len(counts))]
    shares = [count / total for count in counts]
    axis.bar(left, shares, 1 / len(counts), bottom=base, align="edge", color=color)
    place: Any = {"ha": "left", "va": "bottom", "fontsize": 10}
    axis.text(1.02, base + 0.05, f"{100 * shares[-1]:.0f} %", **place)


# Risk against coverage in an audit: errors among the most confident answers.

TOP = 1.25  # of the largest error rate at full coverage
FIRST = 0.02  # of coverage: where a single error is not yet a rate


def curves_of(found: Findings) -> dict[str, RiskCurve]:
    """Every curve by the name of its predictor and score."""
    return {
        f"{name}: {score}": curve
        for name, one in found.predictors.items()
        if one.failure is not None
        for score, curve in (one.failure.curves or {}).items()
    }


@with_look
def risk_coverage(found: Findings) -> Figure:
    """A curve for each predictor and score; where the guard works is marked."""
    curves = curves_of(found)
    title = "The more confident half of the answers holds " + _half(curves)
    figure, (axis,) = panels(1, height=3.8, title=title)
    for i, (name, curve) in enumerate(curves.items()):
        pairs = zip(curve.coverage, curve.risk, strict=True)
        points = [(share, risk) for share, risk in pairs if share >= FIRST]
        axis.plot(*zip(*points, strict=True), label=label(name, 60), **{**line(i), "marker": ""})
    most = max(curve.risk[-1] for curve in curves.values())
    guard = found.guard
    if guard is not None and guard.holds and guard.test is not None and guard.test.risk is not None:
        axis.plot(guard.test.answered.value, guard.test.risk.value, marker="*", markersize=13,
                  linestyle="", color="black", label="the guard", clip_on=False,
                  zorder=4)  # fmt: skip
        axis.axhline(guard.risk, color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2,
                     label="its guarantee: at most this share of errors")  # fmt: skip
    most = max(most, 0.0 if guard is None else guard.risk)
    axis.set(xlim=(_start(curves), 1), ylim=(0, TOP * most))
    axis.set_xlabel("share of inputs answered, the most confident first")
    axis.set_ylabel("errors among the answers")
    per_cent(axis.xaxis)
    per_cent(axis.yaxis)
    figure.legend(loc="outside right upper")
    return figure


def _start(curves: dict[str, RiskCurve]) -> float:
    """Where the picture begins: a little before the first error of any curve."""
    pairs = [zip(curve.coverage, curve.risk, strict=True) for curve in curves.values()]
    first = float(min(share for pair in pairs for share, risk in pair if risk > 0))
    return max(0.0, math.floor(10 * first - 1) / 10)


def _half(curves: dict[str, RiskCurve]) -> str:
    """The share of errors among the more confident half of the answers, over all curves."""
    shares = [100 * one.risk[math.ceil(len(one.risk) / 2) - 1] for one in curves.values()]
    low, high = (f"{end:.1f} %" for end in (min(shares), max(shares)))
    if not max(shares):
        return "no errors"
    return f"{low} errors" if low == high else f"{low} to {high} errors"


# The plots of an audit, each titled with what it shows.

ALPHA = "factor on the test inputs (log scale)"
FIRST_PLOTS = 0.01  # where a ray that is sure from its start is drawn
TIGHT = 0.25  # lines closer together than this get a second, zoomed panel


@with_look
def confidence_along_ray(found: Findings) -> Figure:
    """Mean maximum confidence along alpha * x, a line for each predictor."""
    rays = audit_words.scaled(found)
    curves = {name: numbers(ray.mean_max_confidence) for name, (_, ray) in rays.items()}
    values = [v for curve in curves.values() for v in curve if not math.isnan(v)]
    zoom = bool(values) and max(values) - min(values) < TIGHT
    figure, axes = panels(1 + zoom, height=4, title=audit_words.far_confidence(found))
    for axis in axes:
        for i, (name, curve) in enumerate(curves.items()):
            legend = f"{label(name, 24)}: {_share(curve[0])} → {_share(curve[-1])}"
            _ray(axis, i, rays[name][1].alpha, curve, legend)
    per_cent(axes[0].yaxis)
    axes[0].set_ylim(0, 1.03)
    axes[0].set_ylabel("mean maximum confidence")
    for classes in sorted({one.classes for one, _ in rays.values()}):
        _mark(axes[0], 1 / classes, f"1/{classes}: “I do not know”")
    if zoom:
        per_cent(axes[1].yaxis)
        axes[1].set_title("the same lines, closer", loc="left")
    _legend(figure, axes[0])
    return figure


@with_look
def separation_along_ray(found: Findings) -> Figure:
    """AUROC of the far inputs against the test data along alpha * x, a panel for each measure."""
    measures, rays = audit_words.telling_measures(found), audit_words.scaled(found)
    figure, axes = panels(len(measures), height=4, title=audit_words.far_separation(found))
    for axis, measure in zip(axes, measures, strict=True):
        for i, (name, (_, ray)) in enumerate(rays.items()):
            curve = ray.auroc.get(measure) or [None] * len(ray.alpha)
            _ray(axis, i, ray.alpha, numbers(curve), label(name))
        axis.set_title(measure.replace("_", " "), loc="left")
        axis.set_ylim(-0.03, 1.03)
        _mark(axis, 0.5, "chance")
        axis.text(0.98, 0.52, "above: far looks less certain", **_note(axis, "bottom"))
        axis.text(0.98, 0.48, "below: far looks more certain", **_note(axis, "top"))
    axes[0].set_ylabel("AUROC, far against test")
    _legend(figure, axes[0])
    return figure


@with_look
def far_field(found: Findings) -> Figure:
    """Share of rays that are confident, and that bend no more, by a factor; by kind of rays."""
    kinds = far_kinds(found)
    rows = [part for rays in followed(found).values() for part in rays.values()]
    above = kinds if any(part.factor for part in rows) else []  # else no ray was followed so far
    every = [*above, *kinds]
    figure, axes = panels(len(every), height=3.4, title=audit_words.far_certainty(found))
    for axis, kind in zip(axes, every, strict=True):
        upper = axis in axes[: len(above)]
        for i, (name, rays) in enumerate(followed(found).items()):
            if kind in rays:
                draw = _reached if upper else _settled
                draw(axis, i, label(name, 24), rays[kind])
        axis.set_title(f"{kind}: {'confident' if upper else 'settled'}", loc="left")
        axis.set(ylim=(-0.03, 1.03), xlabel="factor (log scale)", xscale="log")
        axis.xaxis.set_minor_formatter(NullFormatter())  # labels between decades collide
        per_cent(axis.yaxis)
    for axis in (axes[0], axes[len(above)]):
        axis.set_ylabel("share of rays by then")
    _legend(figure, axes[0])
    return figure


def under_shift(found: Findings) -> Figure:
    """Accuracy, calibration error and what the guard does, along a shift."""
    assert found.shift is not None
    figure: Figure = curves(found.shift, metrics=("accuracy", "ece"))
    return figure


def _reached(axis: Axes, i: int, legend: str, part: RayFindings) -> None:
    """The distribution of the factor: solid to 99.9 %, dotted to 95 %."""
    for level, style, text in (("0.999", "-", legend), ("0.95", ":", "_")):
        if level in part.factor:
            _distribution(axis, i, part.factor[level].quantiles, style, text)


def _settled(axis: Axes, i: int, legend: str, part: RayFindings) -> None:
    _distribution(axis, i, part.radius, "-", legend)


def _distribution(
    axis: Axes, i: int, quantiles: Sequence[float | None], style: str, legend: str
) -> None:
    values = numbers(quantiles)
    pairs = [(v, k / (len(values) - 1)) for k, v in enumerate(values) if not math.isnan(v)]
    look = {**line(i), "linestyle": style, "markersize": 4 if style == "-" else 0}
    x, y = [max(v, FIRST_PLOTS) for v, _ in pairs], [share for _, share in pairs]
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
    axis.axhline(height, color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2)
    place: Any = {"ha": "left", "va": "bottom", "color": GRAY, "fontsize": 10}
    axis.text(0.02, height + 0.01, text, transform=axis.get_yaxis_transform(), **place)


def _note(axis: Axes, side: str) -> dict[str, Any]:
    place = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": side}
    return {**place, "color": GRAY, "fontsize": 10, "style": "italic"}


def _share(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:.1f} %"


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if not labels:  # nothing to draw, as where no ray becomes confident
        return
    room = 72 * figure.get_figwidth() / (6.6 * max(map(len, labels)) + 60)  # points a column
    columns = min(3, max(1, int(room)))
    rows = -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + 0.25 * (rows - 1))
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, handlelength=3.5)


# Adversarial examples, where stability was asked for.


def adversarial_examples(found: Findings) -> Figure:
    """Images, changes, and what they are taken for."""
    figure: Figure = adversarial_images(found.sections["stability"].examples)
    return figure
