"""The sections of the audit of a regression as tables with notes."""

import math
from collections.abc import Iterable, Sequence

from nescio.evaluation import (
    RegressionFindings,
    RegressionQuality,
    SpreadRays,
)
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.audit_tables import (
    GUARD_NOTE,
    cost_sections,
    counted,
    guard_table,
    median_of,
    ood_names,
    per_cent,
    separation_section,
    set_size,
    short,
)
from nescio.report.guard_words import wished
from nescio.report.render import Cell, Grid, decimal, known, percent
from nescio.report.sections import registered

ERRORS = ("RMSE", "MAE", "CRPS", "R²")
DENSITY = ("NLL", "NLL, one Gaussian", "sharpness", "50 %", "90 %", "95 %", "calibration error")
INTERVALS = ("held", "mean width", "interval score")
SPREAD = ("rank correlation", "AUROC of large errors", "gain")
ATTACK = ("error", "deviation", "90 % intervals hold")
FAR = ("shrinks", "stays", "grows like √t", "grows like t", "outrun", "last breakpoint")
ERRORS_NOTE = (
    "In the unit of the targets, the mean over targets; 95 % intervals from resampled samples. "
    "CRPS: the error of the whole predicted distribution; of a mean alone it would be the MAE. "
    "R²: the share of the targets' variance that is explained; 0 is what their mean does, 1 is "
    "perfect."
)
DENSITY_NOTE = (
    "NLL in nats, of the exact mixture of the members, and of the one Gaussian with its mean and "
    "variance. Sharpness: the root of the mean predicted variance; calibrated predictions have "
    "about the RMSE. 50 %, 90 %, 95 %: the share of test values, in per cent, in the predicted "
    "interval of that probability; it should be the same number. Calibration error: the mean "
    "distance of the shares below predicted quantiles from what they should be, in percentage "
    "points."
)
INTERVALS_NOTE = (
    "Held: the share of test values in the interval, in per cent. Width and score are in the unit "
    "of the targets. Interval score: the width, and a penalty for what is missed; smaller is "
    "better. The others are conformal: calibrated so that they hold 90 % of new values if these "
    "are drawn like the calibration data, whatever the network is worth."
)
SPREAD_NOTE = (
    "Rank correlation (Spearman) of the predicted deviation and the absolute error: 0 is chance. "
    "AUROC of the predicted deviation for the tenth of the samples with the largest errors, in "
    "per cent: 50 is chance. Gain: the share of what a perfect order by error would save that the "
    "order by predicted deviation saves, in per cent."
)
DEVIATION_NOTE = (
    "Above: the median predicted deviation. Below: the median distance of the predicted mean from "
    "the mean of the test targets. Both in standard deviations of the test targets: on data that "
    "it does not know, a predictor should not be more certain, and its mean should not run away "
    "unless its deviation does."
)
ATTACK_NOTE = (
    "Test samples that gradient ascent moves to where the error is largest, for each predictor by "
    "itself; the radius is a share of the range of the data. Error (root mean squared) and median "
    "predicted deviation in standard deviations of the targets; shares in per cent."
)
FAR_NOTE = (
    "Along a ray the outputs of a ReLU network end up as straight lines, so how the predicted "
    "deviation grows is computed, not sampled. Shares of directions, in per cent. Shrinks: it "
    "falls to the smallest value that the head allows. A variance that is the softplus of an "
    "output grows like the distance t, its deviation like √t. The deviation of members that "
    "disagree grows like t. Outrun: the mean goes on by ever more predicted deviations, so that "
    "any interval is left behind. Last breakpoint: the median factor where the network stops "
    "bending; 1 is the distance of the data."
)


Rows = list[tuple[str, list[Cell | str]]]


def regression_sections(found: RegressionFindings) -> list[Section]:
    """All parts that have something to say, in their order."""
    parts = [
        Section(name="accuracy", title="Errors", note=ERRORS_NOTE, tables=[errors_table(found)]),
        density_section(found),
        guard_section(found),
        Section(name="targets", title="Target by target", tables=target_tables(found)),
        interval_section(found),
        spread_section(found),
        deviation_section(found),
        attack_section(found),
        separation_section(found),
        far_section(found),
        *registered(found),
        *cost_sections(found),
    ]
    return [part for part in parts if part.tables or part.remarks]


def places(values: Iterable[float | None]) -> int:
    """Decimals with which the smallest of the numbers still has three digits; 6 at most."""
    sizes = [abs(v) for value in values if (v := known(value)) and abs(v) > 1e-300]
    if not sizes:
        return 3
    return min(6, max(0, 2 - math.floor(math.log10(min(sizes)))))


def _tests(found: RegressionFindings) -> dict[str, RegressionQuality]:
    mean = f"mean of the {found.baseline_from} targets"
    return {**{name: one.test for name, one in found.predictors.items()}, mean: found.baseline}


def _interval(part: Interval | None, digits: int) -> Cell:
    if part is None:
        return Cell(value=None)
    return Cell(value=part.value, low=part.low, high=part.high, digits=digits)


def _share(part: Interval) -> Cell:
    return Cell(value=part.value, low=part.low, high=part.high, digits=1, scale=100)


def errors_table(found: RegressionFindings) -> Grid:
    """One row per predictor, and one for the mean of targets."""
    tests = _tests(found)
    digits = places(part.value for one in tests.values() for part in (one.rmse, one.mae))
    rows: Rows = [
        (name, [*(_interval(part, digits) for part in (one.rmse, one.mae, one.crps)),
                decimal(one.r2, 3, missing="-")])
        for name, one in tests.items()
    ]  # fmt: skip
    return Grid(corner="predictor", head=ERRORS, rows=rows, stacked=True, samples=counted(found))


def density_section(found: RegressionFindings) -> Section:
    """One row per predictor: densities, widths, and the coverage of the predicted intervals."""
    tests = _tests(found)
    digits = places(one.sharpness.value for one in tests.values())
    rows = []
    for name, one in tests.items():
        cells: list[Cell | str] = [
            _interval(one.nll, 3),
            decimal(one.moment_matched_nll.value, 3, missing="-"),
            decimal(one.sharpness.value, digits, missing="-"),
            per_cent(one.coverage["0.5"].value),
            _share(one.coverage["0.9"]),
            per_cent(one.coverage["0.95"].value),
            per_cent(one.calibration_error.value),
        ]
        rows.append((name, cells))
    table = Grid(corner="predictor", head=DENSITY, rows=rows, stacked=True, samples=counted(found))
    return Section(
        name="calibration",
        title="Predicted distributions",
        note=DENSITY_NOTE,
        tables=[table],
        remarks=_spread_remarks(found),
    )


def _spread_remarks(found: RegressionFindings) -> list[tuple[str, str]]:
    said = (
        "it predicts means alone, so its spread here is the same for every sample: that of its "
        "errors on the samples that fit"
    )
    return [(name, said) for name, one in found.predictors.items() if one.fitted_spread]


def target_tables(found: RegressionFindings) -> list[Grid]:
    """A table for each predictor of several targets."""
    tables = []
    for name, one in found.predictors.items():
        rows: Rows = []
        for target, part in one.targets.items():
            digits = places([part.rmse, part.mae, part.deviation])
            numbers = [
                decimal(v, digits, missing="-") for v in (part.rmse, part.mae, part.deviation)
            ]
            r2 = decimal(part.r2, 3, missing="-")
            rows.append((f"target {target}", [*numbers, r2, _share(part.coverage)]))
        head = ("RMSE", "MAE", "targets' deviation", "R²", "90 % intervals hold")
        if rows:
            tables.append(
                Grid(title=name, corner="target", head=head, rows=rows, samples=counted(found))
            )
    return tables


def guard_section(found: RegressionFindings) -> Section:
    """One row per data set: what the guard decides there; the test data first."""
    guard = found.guard
    if guard is None or guard.test is None:
        return Section(name="guard", title="What the guard does")
    test = guard.test
    missed = (
        ""
        if test.risk is None
        else (
            f"There {test.misses:,} of its answers miss the value: {percent(test.risk.value)} "
            f"({percent(test.risk.low)} to {percent(test.risk.high)}); {wished(guard.risk)} was "
            "guaranteed. "
        )
    )
    own, rest = "half of the test data", "the other half"
    if not guard.halved:
        own, rest = "the validation data", "the test data"
    note = (
        f"Calibrated on {own} ({guard.samples:,} samples), measured on {rest}. "
        f"{missed}Its intervals ({guard.intervals}, for {wished(1 - guard.miscoverage)}) hold "
        f"{percent(test.held.value)} ({percent(test.held.low)} to {percent(test.held.high)}) of "
        f"these values. {GUARD_NOTE}"
    )
    return Section(
        name="guard",
        title="What the guard does",
        note=note,
        tables=[guard_table(guard)],
        points=guard.guarantees or (),
    )


def interval_section(found: RegressionFindings) -> Section:
    """Rows by predictor and method."""
    parts = {name: one.intervals for name, one in found.predictors.items()}
    widths = [one.width for part in parts.values() for one in part.methods.values()]
    digits, remarks = places(widths), []
    rows: Rows = []
    for name, part in parts.items():
        for method, one in part.methods.items():
            numbers = [decimal(v, digits, missing="infinite") for v in (one.width, one.score)]
            rows.append((f"{name}: {method}", [_share(one.coverage), *numbers]))
        remarks += [(f"{name}: {method}", why) for method, why in part.skipped.items()]
    note = f"Calibrated intervals, {found.held_out}. {INTERVALS_NOTE}"
    sizes = [f"{part.samples:,} samples" for part in parts.values() for _ in part.methods]
    grid = Grid(corner="predictor and intervals", head=INTERVALS, rows=rows, samples=sizes)
    title = "Intervals of 90 %"
    return Section(name="intervals", title=title, note=note, tables=[grid], remarks=remarks)


def spread_section(found: RegressionFindings) -> Section:
    """One row per predictor."""
    rows: Rows = []
    remarks, sizes = [], []
    for name, one in found.predictors.items():
        part = one.spread
        if part.rank_correlation is None or part.auroc is None:
            remarks.append((name, str(part.skipped)))
            continue
        order = part.rank_correlation
        cells: list[Cell | str] = [
            Cell(value=order.value, low=order.low, high=order.high, digits=2),
            _share(part.auroc),
            per_cent(part.gain, 0),
        ]
        rows.append((name, cells))
        sizes.append(f"{part.samples:,} samples")
    tables = [Grid(corner="predictor", head=SPREAD, rows=rows, samples=sizes)] if rows else []
    return Section(
        name="failure",
        title="Is the spread larger where the errors are?",
        note=SPREAD_NOTE if rows else "",
        tables=tables,
        remarks=remarks,
    )


def deviation_section(found: RegressionFindings) -> Section:
    """Two tables: deviations and distances of the means; one row per data set."""
    tables = []
    for title, number in (
        ("predicted deviation", "deviation"),
        ("distance of the mean", "distance"),
    ):
        rows = []
        for where in ["test data", *ood_names(found)]:
            parts = [
                one.deviation if where == "test data" else one.ood.get(where)
                for one in found.predictors.values()
            ]
            rows.append((where, [_size(getattr(part, number, None)) for part in parts]))
        sizes = [set_size(found, where) for where, _ in rows]
        head = list(found.predictors)
        tables.append(Grid(title=title, corner="data", head=head, rows=rows, samples=sizes))
    return Section(
        name="confidence",
        title="Spread on the data and off them",
        note=DEVIATION_NOTE,
        tables=tables if ood_names(found) else (),
        remarks=_lost_remarks(found),
    )


def _lost_remarks(found: RegressionFindings) -> list[tuple[str, str]]:
    """On which sets the predictions of a predictor are not finite."""
    parts = {
        name: [where for where, part in one.ood.items() if part.deviation is None]
        for name, one in found.predictors.items()
    }
    said = "its predictions are NaN or infinite on"
    return [(name, f"{said} {', '.join(where)}") for name, where in parts.items() if where]


def _size(value: float | None) -> str:
    """A number of any size, with three digits."""
    number = known(value)
    if number is None:
        return "-"
    return f"{number:.3g}" if 1e-3 <= number < 1000 else f"{number:,.3g}".replace("e+0", "e")


def attack_section(found: RegressionFindings) -> Section:
    """Two rows per predictor: the same samples before and after."""
    rows, remarks, sizes = [], [], []
    for name, one in found.predictors.items():
        part = one.attack
        if part is None:
            continue
        if part.skipped:
            remarks.append((name, f"not attacked. {part.skipped}"))
        for when, state in (("as they are", part.before), ("attacked", part.after)):
            if state is not None:
                cells = [_size(state.error), _size(state.deviation), per_cent(state.coverage)]
                rows.append((f"{name}: {when}", cells))
                sizes.append(f"{part.samples:,} samples")
        if part.blind:
            why = "the network gives no gradient there, so a small error is no evidence"
            remarks.append((name, f"{per_cent(part.blind, 0)} % could not be moved: {why}"))
    options = found.attack or {}
    how = f"Radius {options.get('radius', 0):g}, {options.get('steps', 0)} steps. "
    tables = [Grid(corner="predictor and samples", head=ATTACK, rows=rows, samples=sizes)]
    return Section(
        name="attack",
        title="Under attack",
        note=how + ATTACK_NOTE if rows else "",
        tables=tables if rows else (),
        remarks=remarks,
    )


def far_section(found: RegressionFindings) -> Section:
    """A table for each kind of rays: one row per predictor."""
    parts = {name: one.far_field for name, one in found.predictors.items() if one.far_field}
    rays = {name: part.rays for name, part in parts.items() if part.rays}
    kinds = dict.fromkeys(kind for one in rays.values() for kind in one)
    tables = [
        Grid(title=kind, corner="predictor", head=FAR,
             rows=[(name, _far_cells(one[kind])) for name, one in rays.items() if kind in one],
             samples=[f"{one[kind].count:,} rays" for one in rays.values() if kind in one])
        for kind in kinds
    ]  # fmt: skip
    remarks = [(n, f"no far field. {part.skipped}") for n, part in parts.items() if part.skipped]
    open_ = {n: max(part.undecided for part in one.values()) for n, one in rays.items()}
    remarks += [
        (name, f"rounding leaves {per_cent(share)} % of the directions open")
        for name, share in open_.items()
        if share
    ]
    note = FAR_NOTE if tables else ""
    title = "Infinitely far away"
    return Section(name="far field", title=title, note=note, tables=tables, remarks=remarks)


def _far_cells(part: SpreadRays) -> Sequence[str]:
    shares = (part.shrinks, part.bounded, part.root, part.linear, part.outrun)
    return [*(per_cent(share, 0) for share in shares), short(median_of(part.radius))]
