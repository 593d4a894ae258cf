"""The data of the figures of an audit, as tables: what a figure shows can be read and copied."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nescio.evaluation import Findings, RegressionFindings
from nescio.metrics import Reliability
from nescio.report import audit_words
from nescio.report.audit_tables import (
    calibrated,
    counted,
    far_kinds,
    followed,
    per_cent,
    set_size,
    short,
)
from nescio.report.render import Cell, Grid, decimal, known
from nescio.report.sections.stability_words import change_size

Rows = list[tuple[str, list[Cell | str]]]
STEPS = 21  # rows of a long curve
QUARTERS = (0, 5, 10, 15, 20)  # of the quantiles at 0, 1/20, ..., 1


def _columns(
    corner: str, at: Sequence[str], lines: Mapping[str, Sequence[str]], **about: Any
) -> Grid:
    """One column per line, one row per place on the axis."""
    rows: Rows = [(place, [line[i] for line in lines.values()]) for i, place in enumerate(at)]
    return Grid(corner=corner, head=list(lines), rows=rows, **about)


def _thinned(values: Sequence[Any]) -> list[int]:
    """At most 21 places of a curve, the first and the last among them."""
    last = len(values) - 1
    return sorted({round(k * last / (STEPS - 1)) for k in range(STEPS)}) if last >= STEPS else [
        *range(last + 1)
    ]  # fmt: skip


def confidence_along_ray(found: Findings) -> list[Grid]:
    """Mean maximum confidence in per cent by the factor."""
    rays = audit_words.scaled(found)
    alpha = next(iter(rays.values()))[1].alpha
    lines = {n: [per_cent(v) for v in ray.mean_max_confidence] for n, (_, ray) in rays.items()}
    size = set_size(found, next((one.name for one in found.of_kind("far")), ""))
    at = [f"{a:g}" for a in alpha]
    return [_columns("factor", at, lines, title="Mean confidence, per cent", samples=size)]


def separation_along_ray(found: Findings) -> list[Grid]:
    """AUROC by the factor, a table for each measure."""
    tables = []
    rays = audit_words.scaled(found)
    for measure in audit_words.telling_measures(found):
        lines = {
            name: [decimal(v, 3, missing="-") for v in ray.auroc[measure]]
            for name, (_, ray) in rays.items()
            if measure in ray.auroc
        }
        at = [f"{a:g}" for a in next(iter(rays.values()))[1].alpha]
        title = f"AUROC of {measure.replace('_', ' ')}"
        tables.append(_columns("factor", at, lines, title=title, samples=counted(found)))
    return tables


def far_field(found: Findings) -> list[Grid]:
    """Quarters of the factors, a table for each kind of rays."""
    head = ["first", "quarter", "half", "three quarters", "all"]
    tables = []
    for kind in far_kinds(found):
        rows: Rows = []
        sizes = []
        for name, rays in followed(found).items():
            part = rays.get(kind)
            for label, values, count in [] if part is None else _distances(part):
                rows.append((f"{name}: {label}", [short(values[q]) for q in QUARTERS]))
                sizes.append(f"{count:,} rays")
        title = f"Rays, {kind}: the factor by which a share of them is there"
        tables.append(
            Grid(corner="predictor and event", head=head, rows=rows, title=title, samples=sizes)
        )
    return tables


def _distances(part: Any) -> list[tuple[str, Sequence[float | None], int]]:
    factors = [
        ("95 % confidence", part.factor.get("0.95")),
        ("99.9 % confidence", part.factor.get("0.999")),
    ]
    known_ones = [(label, one.quantiles, one.rays) for label, one in factors if one is not None]
    return [*known_ones, ("last breakpoint", part.radius, part.count)]


def confidence_histograms(found: Findings) -> list[Grid]:
    """Shares of samples by bins of confidence in per cent, a table for each predictor."""
    tables = []
    for name, one in found.predictors.items():
        bins = max(map(len, one.confidence_histograms.values()))
        at = [f"{100 * k / bins:g} to {100 * (k + 1) / bins:g} %" for k in range(bins)]
        lines = {
            where: [per_cent(count / max(sum(counts), 1)) for count in counts]
            for where, counts in one.confidence_histograms.items()
        }
        sizes = {where: sum(counts) for where, counts in one.confidence_histograms.items()}
        rest = ", ".join(f"{count:,} {where}" for where, count in sizes.items())
        title = f"{name}: share of samples, per cent"
        tables.append(_columns("confidence", at, lines, title=title, samples=f"{rest} samples"))
    return tables


def reliability_diagrams(found: Findings) -> list[Grid]:
    """The bins of each predictor."""
    shown: dict[str, Reliability] = {}
    parts = calibrated(found)
    for name, one in found.predictors.items():
        part = parts.get(name)
        if part is None or part.before is None:
            shown |= {} if parts else {name: one.reliability}
            continue
        shown[name] = part.before.reliability
        if part.after is not None and name == next(iter(parts)):
            shown[f"{name}, temperature"] = part.after.reliability
    return [_bins(name, bins) for name, bins in shown.items()]


def _bins(name: str, bins: Reliability) -> Grid:
    low, high = bins.bounds()
    rows: Rows = [
        (
            f"{100 * bins.edges[k]:.0f} to {100 * bins.edges[k + 1]:.0f} %",
            [
                f"{int(count):,}",
                per_cent(float(bins.confidence[k])),
                Cell(value=float(bins.accuracy[k]), low=float(low[k]), high=float(high[k]),
                     digits=1, scale=100),
            ],
        )
        for k, count in enumerate(bins.count)
        if count
    ]  # fmt: skip
    head = ["samples", "mean confidence", "accuracy"]
    samples = f"{int(sum(bins.count)):,} samples"
    return Grid(corner="confidence", head=head, rows=rows, title=name, samples=samples)


def risk_coverage(found: Findings) -> list[Grid]:
    """The share of errors by the share that is answered, in per cent."""
    tables = []
    for name, one in found.predictors.items():
        if one.failure is None or not one.failure.curves:
            continue
        curves = one.failure.curves
        places = _thinned(next(iter(curves.values())).coverage)
        at = [per_cent(next(iter(curves.values())).coverage[k]) + " %" for k in places]
        lines = {score: [per_cent(c.risk[k]) for k in places] for score, c in curves.items()}
        size = f"{one.failure.samples:,} samples"
        title = f"{name}: errors among the answers, per cent"
        tables.append(_columns("answered", at, lines, title=title, samples=size))
    return tables


def under_shift(found: Findings) -> list[Grid]:
    """What the figure shows at each strength, in per cent."""
    shift = found.shift
    assert shift is not None
    at = [f"{strength:g}" for strength in shift.strengths]
    tables = []
    for key, title in SHIFTED.items():
        if subjects := shift.subjects(key):
            lines = {name: [per_cent(v) for v in shift.curve(name, key)] for name in subjects}
            size = f"{shift.samples:,} samples"
            tables.append(_columns("strength", at, lines, title=title, samples=size))
    return tables


SHIFTED = {
    "accuracy": "Accuracy, per cent",
    "ece": "ECE, per cent",
    "risk": "Errors among the answers, per cent",
    "answered": "Answered, per cent",
    "unsure": "Unsure, per cent",
    "ood": "Called OOD, per cent",
}


def adversarial_examples(found: Findings) -> list[Grid]:
    """The examples: answers before and after, and the size of the change."""
    rows: Rows = [
        (
            f"test sample {one.sample}",
            [
                str(one.label), per_cent(one.confidence), str(one.wrong),
                per_cent(one.wrong_confidence), change_size(one.size),
            ],
        )
        for one in found.sections["stability"].examples
    ]  # fmt: skip
    head = ["answer", "confidence", "after the change", "confidence there", "size of the change"]
    return [Grid(corner="example", head=head, rows=rows)]


def coverage_curves(found: RegressionFindings) -> list[Grid]:
    """The share of values held by intervals of each probability, in per cent."""
    curves = {name: one.test.curve for name, one in found.predictors.items()}
    levels = next(iter(curves.values())).levels
    places = _thinned(levels)
    at = [per_cent(levels[k]) + " %" for k in places]
    lines = {name: [per_cent(curve.held[k]) for k in places] for name, curve in curves.items()}
    title = "Test values held, per cent"
    return [_columns("probability", at, lines, title=title, samples=counted(found))]


def examples(found: RegressionFindings) -> list[Grid]:
    """Some of the samples of the figure, in rising order of the predicted mean."""
    tables = []
    for name, one in list(found.predictors.items())[:3]:
        rows: Rows = []
        for k in _thinned(one.examples):
            part = one.examples[k]
            numbers = (part.truth, part.mean, part.low, part.high, part.deviation)
            rows.append((f"{k + 1}", [f"{number:.4g}" for number in numbers]))
        head = ["true value", "mean", "5 % quantile", "95 % quantile", "deviation"]
        size = f"{len(one.examples):,} samples that were drawn"
        tables.append(Grid(corner="rank", head=head, rows=rows, title=name, samples=size))
    return tables


def error_by_coverage(found: RegressionFindings) -> list[Grid]:
    """The mean error by the share of samples."""
    tables = []
    for name, one in found.predictors.items():
        curve = one.spread.curve
        if curve is None:
            continue
        places = _thinned(curve.coverage)
        at = [per_cent(curve.coverage[k]) + " %" for k in places]
        lines = {"mean error": [decimal(curve.error[k], 3, missing="-") for k in places]}
        size = f"{one.spread.samples:,} samples"
        tables.append(_columns("share", at, lines, title=name, samples=size))
    return tables


def spread_along_ray(found: RegressionFindings) -> list[Grid]:
    """Deviation and distance of the mean by the factor."""
    rays = {name: one.scaling for name, one in found.predictors.items() if one.scaling is not None}
    at = [f"{a:g}" for a in next(iter(rays.values())).alpha]
    size = set_size(found, next((one.name for one in found.of_kind("far")), ""))
    return [
        _columns(
            "factor",
            at,
            {name: [_size(v) for v in getattr(ray, key)] for name, ray in rays.items()},
            title=title,
            samples=size,
        )
        for key, title in (
            ("deviation", "Predicted deviation, in deviations of the targets"),
            ("distance", "Distance of the mean, in deviations of the targets"),
        )
    ]


def _size(value: float | None) -> str:
    number = known(value)
    return "-" if number is None else f"{number:.3g}"


TABLES: dict[str, Callable[[Any], list[Grid]]] = {
    "confidence_along_ray": confidence_along_ray,
    "separation_along_ray": separation_along_ray,
    "far_field": far_field,
    "confidence_histograms": confidence_histograms,
    "reliability_diagrams": reliability_diagrams,
    "risk_coverage": risk_coverage,
    "under_shift": under_shift,
    "adversarial_examples": adversarial_examples,
    "coverage_curves": coverage_curves,
    "intervals_by_prediction": examples,
    "spread_and_error": examples,
    "error_by_coverage": error_by_coverage,
    "spread_along_ray": spread_along_ray,
}
