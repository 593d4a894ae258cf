"""The sections of an audit as tables with notes, for the terminal and for the page alike."""

from collections.abc import Iterable, Mapping, Sequence

from nescio.evaluation import RegressionFindings, RegressionGuardFindings
from nescio.evaluation.audit.findings import (
    AuditFindings,
    CalibrationFindings,
    CalibrationNumbers,
    Findings,
    GuardFindings,
    RayFindings,
    Separation,
)
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.guard_words import guard_notes
from nescio.report.render import FPR95, Cell, Grid, decimal, known
from nescio.report.sections import registered

QUALITY = ("accuracy", "confidence", "ECE", "NLL", "Brier")
CALIBRATION = ("temperature", "ECE", "95 % interval", "smooth ECE", "NLL", "Brier")
FAILURE = ("AP of errors", "gain in AP", "AUROC", "AURC")
GUARD = ("samples", "answered", "unsure", "ood")
FAR = (
    "certain", "confidence in the limit", "last breakpoint", "factor to 95 %", "factor to 99.9 %",
)  # fmt: skip
QUALITY_NOTE = "Accuracy, mean maximum confidence and ECE in per cent, NLL in nats."
CALIBRATION_NOTE = (
    "ECE: the gap of confidence and accuracy over 15 bins, in per cent. Its interval is from "
    "resampled samples and takes off some of what chance adds to the gap, so it may lie below the "
    "ECE. It starts above 0 only if calibrated answers would show so large a gap in 2.5 % of draws "
    "at most. Smooth ECE: with a kernel in place of bins."
)
FAILURE_NOTE = (
    "AP of errors, its gain over the maximum probability, and AUROC in per cent, AURC in "
    "thousandths; 95 % intervals from resampled samples. AP and AUROC: larger is better; chance is "
    "the share of errors for AP, 50 for AUROC. AURC: the mean share of errors over all coverages; "
    "smaller is better."
)
GUARD_NOTE = (
    "Shares in per cent. The guard abstains where it is unsure or calls the input OOD. The "
    "guarantees are about inputs like the held-out data; how often it abstains on others is "
    "measured, not guaranteed."
)
SEPARATION_NOTE = (
    "AUROC / FPR95. AUROC: larger is better, 0.5 is chance, below 0.5 the OOD data look more "
    f"certain than the test data. {FPR95['ood'].format(data='the test data')} A dash: the measure "
    "is the same for every sample."
)
ATTACK_NOTE = (
    "Adversarial noise: the most confident inputs that gradient ascent finds near noise, for each "
    "predictor by itself. The radius is a share of the range of the data. A longer attack may find "
    "more confident ones."
)
FAR_NOTE = (
    "Along a ray the logits of a ReLU network end up as straight lines, so its answer has a limit, "
    "and that limit is computed, not sampled. Certain: the share of directions in which all "
    "probability goes to one class in the limit. Last breakpoint: where the network stops bending. "
    "Factors are medians; 1 is the distance of the data (for single features: one standard "
    "deviation from a test point). At once: the data themselves. Never: not within half of the "
    "directions. Factors are followed on 10 to 50 of the rays. Exact up to float64 rounding."
)


def sections(found: Findings) -> list[Section]:
    """All parts that have something to say, in their order."""
    parts = [
        quality_section(found),
        guard_section(found),
        calibration_section(found),
        failure_section(found),
        confidence_section(found),
        separation_section(found),
        far_section(found),
        *registered(found),
        *cost_sections(found),
    ]
    return [part for part in parts if part is not None and (part.tables or part.remarks)]


def cost_sections(found: AuditFindings) -> list[Section]:
    """What was not run, and what was drawn because it is large."""
    return [
        Section(name="not run", title="Not run", remarks=left_out_remarks(found)),
        Section(
            name="drawn samples", title="Samples that were drawn", remarks=drawn_remarks(found)
        ),
    ]


def left_out_remarks(found: AuditFindings) -> list[tuple[str, str]]:
    """The sections that were left out, and why; equal reasons once."""
    reasons = dict.fromkeys(found.not_run.values())
    by_reason = {w: [s for s, why in found.not_run.items() if why == w] for w in reasons}
    return [(", ".join(names), why) for why, names in by_reason.items()]


NOT_FOLLOWED = (
    "the factors to a confidence are left out, because rays through a deep or large network bend "
    "too often; budget='thorough' (--budget thorough) looks for them"
)
DRAWN = {
    "noise": "noise", "ood": "each OOD set", "scaled": "scaled inputs", "shift": "the shift",
    "guard": "the guard on each OOD set", "attack": "attacked inputs", "rays": "rays of each kind",
}  # fmt: skip


def drawn_remarks(found: AuditFindings) -> list[tuple[str, str]]:
    """What was read of a large network's samples, and how to read all."""
    cost = found.cost
    if cost is None:
        return []
    parts = ", ".join(f"{DRAWN[part]} {count:,}" for part, count in cost.drawn.items())
    size = f"One sample takes {cost.multiplications / 1e6:,.0f} million multiplications"
    said = f"{size}, so that the audit reads some samples in these parts, at most: {parts}"
    return [("large network", f"{said}. budget='thorough' (--budget thorough) reads all")]


def per_cent(value: float | None, digits: int = 1) -> str:
    """A share in per cent, without the sign."""
    return decimal(value, digits, scale=100, missing="-")


def counted(found: AuditFindings, *sets: str) -> str:
    """How many samples the numbers rest on: of the test data and of OOD sets."""
    sizes = {one.name: one.samples for one in found.sets}
    more = [f"{sizes[name]:,} of {name}" for name in sets if sizes.get(name) is not None]
    return " and ".join([f"{found.samples:,} test samples", *more])


def set_size(found: AuditFindings, name: str) -> str:
    """How many samples an OOD set, or the test data, has."""
    sizes = {one.name: one.samples for one in found.sets}
    count = found.samples if name == "test data" else sizes.get(name)
    return "" if count is None else f"{count:,} samples"


def quality_section(found: Findings) -> Section:
    """Accuracy, confidence and proper scores of every predictor."""
    title, tables = "Accuracy and confidence", [quality_table(found)]
    return Section(name="accuracy", title=title, note=QUALITY_NOTE, tables=tables)


def quality_table(found: Findings) -> Grid:
    """One row per predictor: accuracy, mean maximum confidence and ECE in per cent."""
    rows = []
    for name, one in found.predictors.items():
        test = one.test
        shares = [per_cent(v) for v in (test.accuracy, test.mean_max_confidence, test.ece)]
        rows.append(
            (name, [*shares, *(decimal(v, 3, missing="-") for v in (test.nll, test.brier))])
        )
    return Grid(corner="predictor", head=QUALITY, rows=rows, samples=counted(found))


def ood_names(found: Findings | RegressionFindings) -> list[str]:
    """The OOD sets of all predictors, in the order in which they come."""
    return _union(one.ood for one in found.predictors.values())


def confidence_section(found: Findings) -> Section | None:
    """One row per data set, one cell per predictor."""
    if not ood_names(found):
        return None
    rows: list[tuple[str, list[Cell | str]]] = []
    for where in ["test data", *ood_names(found)]:
        parts = [
            one.test if where == "test data" else one.ood.get(where)
            for one in found.predictors.values()
        ]
        values = [None if part is None else part.mean_max_confidence for part in parts]
        rows.append((where, [per_cent(value) for value in values]))
    attacked = any(found.kind(where) == "adversarial" for where in ood_names(found))
    sizes = [set_size(found, where) for where, _ in rows]
    return Section(
        name="confidence",
        title="Confidence on the data and off them",
        note="Mean maximum confidence in per cent." + (f" {ATTACK_NOTE}" if attacked else ""),
        tables=[Grid(corner="data", head=list(found.predictors), rows=rows, samples=sizes)],
        remarks=attack_remarks(found),
    )


def attack_remarks(found: Findings) -> list[tuple[str, str]]:
    """The predictors that could not be attacked, or not everywhere, and why."""
    remarks = []
    for name, one in found.predictors.items():
        if one.attack.skipped:
            remarks.append((name, f"no adversarial noise. {one.attack.skipped}"))
        elif blind := known(one.attack.blind):
            why = "the network gives no gradient there, so a low confidence is no evidence"
            said = f"the attack could not move {per_cent(blind, 0)} % of its inputs: {why}"
            remarks.append((name, said))
    return remarks


def separation_section(found: Findings | RegressionFindings) -> Section:
    """A table for each OOD set: one row per measure, one cell per predictor."""
    tables = [
        Grid(
            title=where,
            corner="measure",
            head=list(found.predictors),
            rows=[
                (
                    measure_words(measure),
                    [_separated(part.get(measure)) for part in _measures(found, where)],
                )
                for measure in _union(_measures(found, where))
            ],
            samples=counted(found, where),
        )
        for where in ood_names(found)
    ]
    title = "Telling OOD data from the test data"
    return Section(name="ood", title=title, note=SEPARATION_NOTE, tables=tables)


def measure_words(measure: str) -> str:
    """The name of a measure as a reader says it."""
    return measure.replace("_", " ")


def _measures(found: Findings | RegressionFindings, where: str) -> list[Mapping[str, Separation]]:
    sets = [one.ood.get(where) for one in found.predictors.values()]
    return [{} if part is None else part.measures for part in sets]


def _separated(part: Separation | None) -> Cell | str:
    """AUROC and FPR95; shaded by the side of chance."""
    if part is None or part.constant:
        return "-"
    auroc, fpr = known(part.auroc), decimal(part.fpr_at_95_tpr, 3, missing="-")
    if auroc is None:
        return "-" if fpr == "-" else f"- / {fpr}"
    return Cell(value=auroc, after=f" / {fpr}", shade=2 * auroc - 1)


def followed(found: Findings) -> dict[str, Mapping[str, RayFindings]]:
    """The predictors whose far field is known, with its rays by kind."""
    parts = {name: one.far_field for name, one in found.predictors.items()}
    return {name: part.rays for name, part in parts.items() if part is not None and part.rays}


def far_kinds(found: Findings) -> list[str]:
    """The kinds of rays that were followed."""
    return _union(followed(found).values())


def far_section(found: Findings) -> Section:
    """A table for each kind of rays: one row per predictor, medians of the factors."""
    tables = [
        Grid(
            title=kind,
            corner="predictor",
            head=FAR,
            rows=[
                (name, _far_cells(rays[kind]))
                for name, rays in followed(found).items()
                if kind in rays
            ],
            samples=[
                f"{rays[kind].count:,} rays" for rays in followed(found).values() if kind in rays
            ],
        )
        for kind in far_kinds(found)
    ]
    parts = {name: one.far_field for name, one in found.predictors.items()}
    remarks = [
        (name, f"no far field. {part.skipped}")
        for name, part in parts.items()
        if part is not None and part.skipped
    ]
    deep = [n for n, rays in followed(found).items() if not any(p.factor for p in rays.values())]
    remarks += [(name, NOT_FOLLOWED) for name in deep]
    remarks += [
        (name, _growing(part.growing_precision))
        for name, part in parts.items()
        if part is not None and part.growing_precision
    ]
    note = FAR_NOTE if tables else ""
    title = "Infinitely far away"
    return Section(name="far field", title=title, note=note, tables=tables, remarks=remarks)


def _growing(shares: Mapping[str, float]) -> str:
    listed = ", ".join(f"{kind} {per_cent(share, 0)} %" for kind, share in shares.items())
    return (
        "the precision of its Dirichlets, which stands for evidence, grows without bound along "
        f"these shares of rays: {listed} (exact)."
    )


def _far_cells(part: RayFindings) -> list[str]:
    levels = [part.factor.get(level) for level in ("0.95", "0.999")]
    return [
        f"{per_cent(part.certain, 0)} %",
        f"{per_cent(part.mean_limit_confidence)} %",
        short(median_of(part.radius)),
        *("-" if one is None else _factor(median_of(one.quantiles), part.start) for one in levels),
    ]


def short(value: float | None) -> str:
    """A factor with three digits; large ones as powers of ten."""
    number = known(value)
    if number is None:
        return "never"
    if number < 1000:
        return f"{number:.3g}"
    return f"{number:,.0f}" if number < 1e6 else f"{number:.0e}".replace("e+0", "e")


def _factor(value: float | None, start: float) -> str:
    return "at once" if value == start else short(value)


def median_of(quantiles: Sequence[float | None]) -> float | None:
    """The middle one of quantiles."""
    return quantiles[len(quantiles) // 2]


def measure_names(found: Findings | RegressionFindings) -> list[str]:
    """Every measure that some table or curve of the audit shows."""
    predictors = found.predictors.values()
    sets = [part.measures for one in predictors for part in one.ood.values()]
    return _union([*sets, *(one.scaling.auroc for one in predictors if one.scaling)])


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in names for name in part))


def calibrated(found: Findings) -> dict[str, CalibrationFindings]:
    """The predictors whose calibration was measured."""
    parts = {name: one.calibration for name, one in found.predictors.items()}
    return {n: part for n, part in parts.items() if part is not None and part.before is not None}


def calibration_section(found: Findings) -> Section:
    """Two rows per predictor: as it is, and after temperature where there is one."""
    rows: list[tuple[str, list[str]]] = []
    remarks = []
    for name, part in calibrated(found).items():
        assert part.before is not None
        rows.append((name, ["1", *_calibrated_cells(part.before)]))
        if part.after is not None:
            heat = decimal(part.temperature, 2, missing="-")
            rows.append((f"{name}, temperature", [heat, *_calibrated_cells(part.after)]))
        if part.skipped:
            remarks.append((name, f"no temperature. {part.skipped}"))
    held = f"Before and after temperature, {found.held_out}. " if found.held_out else ""
    sizes = [
        f"{sum(part.before.reliability.count):,} samples"
        for part in calibrated(found).values()
        for _ in range(1 + (part.after is not None))
        if part.before is not None
    ]
    tables = [Grid(corner="predictor", head=CALIBRATION, rows=rows, samples=sizes)] if rows else []
    note = held + CALIBRATION_NOTE
    return Section(
        name="calibration", title="Calibration", note=note, tables=tables, remarks=remarks
    )


def _calibrated_cells(part: CalibrationNumbers) -> list[str]:
    ends = [per_cent(max(0.0, end)) for end in (part.ece.low, part.ece.high)]
    return [
        per_cent(part.ece.value),
        f"{ends[0]} to {ends[1]}",
        per_cent(part.smooth_ece),
        decimal(part.nll, 3, missing="-"),
        decimal(part.brier, 3, missing="-"),
    ]


def failure_section(found: Findings) -> Section:
    """One row per predictor and score."""
    rows: list[tuple[str, list[Cell | str]]] = []
    remarks, sizes = [], []
    for name, one in found.predictors.items():
        if one.failure is None:
            continue
        for score, part in (one.failure.scores or {}).items():
            gain = (part.gain or {}).get("ap_error")
            cells = [
                _interval(part.ap_error),
                "-" if gain is None else _interval(gain, sign="+"),
                per_cent(part.auroc.value),
                decimal(part.aurc.value, 2, scale=1000, missing="-"),
            ]
            rows.append((f"{name}: {score}", cells))
            sizes.append(f"{one.failure.samples:,} samples, {one.failure.errors:,} errors")
        if one.failure.skipped:
            remarks.append((name, one.failure.skipped))
    tables = [Grid(corner="predictor and score", head=FAILURE, rows=rows, samples=sizes)]
    return Section(
        name="failure",
        title="Are its errors found?",
        note=FAILURE_NOTE if rows else "",
        tables=tables if rows else (),
        remarks=remarks,
    )


def _interval(part: Interval, sign: str = "") -> Cell:
    return Cell(value=part.value, low=part.low, high=part.high, digits=1, scale=100, sign=sign)


def guard_section(found: Findings) -> Section | None:
    """One row per data set: what the guard decides there; the test data first."""
    guard = found.guard
    if guard is None or guard.test is None:
        return None
    return Section(
        name="guard",
        title="What the guard does",
        note=" ".join([*guard_notes(found), GUARD_NOTE]),
        tables=[guard_table(guard)],
        points=guard.guarantees or (),
    )


def guard_table(guard: GuardFindings | RegressionGuardFindings) -> Grid:
    """One row per data set: shares of the decisions."""
    test = guard.test
    assert test is not None
    own = (test.samples, test.answered.value, test.unsure, test.ood.value)
    parts = {"test data": own} | {
        name: (part.inputs, part.answer, part.unsure, part.ood)
        for name, part in (guard.ood or {}).items()
    }
    rows = [
        (name, [f"{samples:,.0f}", *map(per_cent, shares)])
        for name, (samples, *shares) in parts.items()
    ]
    return Grid(corner="data", head=GUARD, rows=rows)
