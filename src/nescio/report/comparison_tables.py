"""The tables of a comparison, by its task, and the notes below them."""

from collections.abc import Sequence

from nescio.core import DataSet, NescioError, unknown
from nescio.evaluation.compare.comparison import MEAN, Comparison
from nescio.report.render import FPR95, METRICS, Cell, Grid, Group, Page, cell_of, decimal

OF_OOD = ("auroc", "aupr", "fpr_at_95_tpr")
OF_CONFIDENCE = ("mean_max_confidence", "auroc", "fpr_at_95_tpr")
OF_ERRORS = ("ap_error", "ap_success", "auroc", "fpr_at_tpr", "aurc", "augrc", "excess_aurc")
THOUSANDTHS = ("aurc", "augrc", "excess_aurc")  # as they are usually printed
COSTS = ("fit, ms", "score 1000, ms", "fitted, MB")
FIRST = (
    "{mark}as good as the best, as far as these data tell: a paired test (DeLong, with Holm's "
    "correction for all pairs) finds no difference from the best, and one from a row without it."
)


def comparison_page(found: Comparison, metric: str | None = None) -> Page:
    """What a terminal shows; with a metric, the table of this metric alone."""
    if found.about.task == "confidence":
        return Page(tables=(confidence_table(found),), notes=_confidence_notes(found))
    if found.about.task == "errors":
        return Page(tables=errors_tables(found), notes=_error_notes(found))
    if metric is not None:
        if metric not in OF_OOD:
            raise NescioError(unknown("metric", metric, OF_OOD))
        return Page(tables=(ood_table(found, metric),), notes=_ood_notes(found))
    return Page(
        tables=(ood_table(found, "auroc"), cost_table(found, OF_OOD[1:])), notes=_ood_notes(found)
    )


def full_page(found: Comparison) -> Page:
    """What a file holds: a table for each metric."""
    if found.about.task != "ood":
        return comparison_page(found)
    tables = [ood_table(found, metric) for metric in OF_OOD]
    return Page(tables=(*tables, cost_table(found, ())), notes=_ood_notes(found))


def measured(found: Comparison, *kinds: str) -> list[DataSet]:
    """The data sets of some kinds that were measured."""
    return [one for one in found.sets if one.kind in kinds and one.absent is None]


def ood_table(found: Comparison, metric: str) -> Grid:
    """One metric: one row per subject, best first; one column per OOD set, then the means."""
    sets = measured(found, "ood", "near")
    means = measured(found, "mean") if len(sets) > 1 else []
    both = len(means) > 1  # near and far ones are told apart
    words = {"near": " (near)", "ood": " (far)"} if both else {}
    names = [one.name for one in (*sets, *means)]
    return Grid(
        title=f"{METRICS[metric]}, {found.about.data} ({found.about.samples:,} inputs) against",
        head=[f"{one.name}{words.get(one.kind, '')}" for one in (*sets, *means)],
        rows=[
            (subject, [cell_of(found.row(subject, data, metric)) for data in names])
            for subject in found.ranked
        ],
    )


def cost_table(found: Comparison, metrics: Sequence[str]) -> Grid:
    """Means of some metrics over all OOD sets, and what each subject costs."""
    rows: list[tuple[str, list[Cell | str]]] = []
    passes = {one.name: one.own_pass for one in found.about.subjects}
    for subject in found.ranked:
        means = [cell_of(found.row(subject, MEAN, metric)) for metric in metrics]
        fit, score, size = (
            row.value or 0.0 if (row := found.row(subject, "", cost)) else 0.0
            for cost in ("fit_seconds", "score_seconds_per_1000", "bytes")
        )
        plus = " +" if passes[subject] else ""
        costs = [f"{1000 * fit:,.1f}", f"{1000 * score:,.1f}{plus}", f"{size / 1e6:,.2f}"]
        rows.append((subject, [*means, *costs]))
    title = "Means over the OOD sets, and costs" if metrics else "Costs"
    return Grid(title=title, head=[*(f"mean {METRICS[m]}" for m in metrics), *COSTS], rows=rows)


def _ood_notes(found: Comparison) -> list[str]:
    """What the numbers mean, what was tuned on what, what is missing and why."""
    about, data = found.about, found.about.data
    forward = about.forward_seconds_per_1000 or 0.0
    positive = "the OOD data" if about.positive == "ood" else "the test data"
    others = (
        f"by a bootstrap of {about.resamples:,} resamples" if about.resamples else "not computed"
    )
    said = [
        FIRST,
        FPR95["ood" if about.positive == "ood" else "in_dist"].format(data=data),
        f"AUPR: the area under precision and recall, where {positive} are the positive class; a "
        "random score reaches their share.",
        f"Intervals ({100 * about.level:g} %): of the AUROC by DeLong, of the others {others}. "
        "They hold for this trained network; another training may give other numbers.",
        f"Costs: the forward pass that all share takes {1000 * forward:,.1f} ms for 1000 inputs, "
        "and the time of the scores comes on top; +: runs the network again by itself. fitted, MB: "
        "the size of the fitted tensors.",
    ]
    if about.networks > 1:
        said.append(
            f"{about.networks} networks: detectors are fitted to each, and scores averaged; "
            "measures read all answers together."
        )
    said += [f"{one.name} {one.said}" for one in about.subjects if one.said]
    for one in found.sets:
        if one.absent is not None:
            said.append(f"{one.name} is not at hand: {one.absent}")
        elif one.in_train:
            said.append(
                f"{one.name}: {one.in_train} of its {one.samples} inputs are among the training "
                "inputs, so detectors that were fitted on them look better than they are."
            )
    return [*said, *(f"{name} left out: {why}" for name, why in about.left_out.items())]


def confidence_table(found: Comparison) -> Grid:
    """One row per data set, three columns per subject; what was published stands below."""
    names = found.subjects
    rows: list[tuple[str, list[Cell | str]]] = []
    for one in found.sets:
        cells = [found.row(name, one.name, key) for name in names for key in OF_CONFIDENCE]
        rows.append((_label(found, one.name), [cell_of(row) for row in cells]))
        printed = [None if row is None else row.published for row in cells]
        if any(value is not None for value in printed):
            rows.append(("  published", [Cell(value=value) for value in printed]))
    return Grid(
        corner="data",
        head=[METRICS[key] for key in OF_CONFIDENCE] * len(names),
        groups=[Group(title=name, lines=_error(found, name), span=3) for name in names],
        rows=rows,
        stacked=True,
    )


def _label(found: Comparison, data: str) -> str:
    """The name with the number of inputs, or with each subject's where they differ."""
    rows = [found.row(name, data, "samples") for name in found.subjects]
    counts = ["-" if row is None or row.note else f"{row.value:,.0f}" for row in rows]
    different = sorted({*counts} - {"-"})
    if not different:
        return data
    return f"{data} ({different[0] if len(different) == 1 else '; '.join(counts)})"


def _error(found: Comparison, name: str) -> tuple[str, ...]:
    """The test error in per cent with its interval, and the published one, where there are."""
    row = found.row(name, found.about.data, "error")
    if row is None:
        return ()
    texts = []
    if row.value is not None:
        value, low, high = (
            decimal(one, 2, scale=100, missing="") for one in (row.value, row.low, row.high)
        )
        texts.append(f"error {value} %{f' ({low}-{high})' if low else ''}")
    if row.published is not None:
        texts.append(f"published {decimal(row.published, 2, scale=100, missing='-')} %")
    return tuple(texts)


def _confidence_notes(found: Comparison) -> list[str]:
    """What the numbers mean, and what is missing and why."""
    about, data = found.about, found.about.data
    notes = [
        "MMC: mean maximum confidence; lower is better off the data. AUROC: larger is better, 0.5 "
        f"is chance. {FPR95['in_dist'].format(data=data)}"
    ]
    if about.resamples:
        share = f"{100 * about.level:g}"
        notes.append(f"{share} % bootstrap intervals of {about.resamples:,} resamples.")
    notes += [
        f"{one.name} was not measured: {one.absent}" for one in found.sets if one.absent is not None
    ]
    for name in found.subjects:
        rows = [row for row in found.rows if row.subject == name]
        reasons: dict[str, list[str]] = {}
        for row in rows:
            if row.metric == "samples" and row.note:
                reasons.setdefault(row.note, []).append(row.data)
        notes += [f"{' / '.join(sets)}: {name} left out: {why}" for why, sets in reasons.items()]
        notes += [
            f"{row.data}: the attack on {name} had no gradient to follow on {row.value:.0%} of the "
            "inputs; that row is no evidence there (attacks.leaking goes on)"
            for row in rows
            if row.metric == "blind" and (row.value or 0.0) >= 0.01
        ]
    return notes


def errors_tables(found: Comparison) -> tuple[Grid, Grid]:
    """Every metric with its interval, and its difference from the maximum probability."""
    about = found.about
    title = f"Errors of the network on {about.data}: {about.errors:,} of {about.samples:,} inputs"
    head = [METRICS[key] for key in OF_ERRORS]
    baseline, *_ = found.subjects
    own = [(name, [_error_cell(found, name, key) for key in OF_ERRORS]) for name in found.ranked]
    less = [
        (name, [_error_cell(found, name, key, "_difference") for key in OF_ERRORS])
        for name in found.ranked
        if name != baseline
    ]
    return (
        Grid(title=title, head=head, rows=own),
        Grid(title=f"Less those of the {baseline}", head=head, rows=less),
    )


def _error_cell(found: Comparison, name: str, key: str, less: str = "") -> Cell:
    row = found.row(name, found.about.data, f"{key}{less}")
    scale = 1000 if key in THOUSANDTHS else 100
    digits = 2 if key in (*THOUSANDTHS, "ap_success") else 1
    return cell_of(row, digits=digits, scale=scale, sign="+" if less else "")


def _error_notes(found: Comparison) -> list[str]:
    """What the numbers mean."""
    about = found.about
    chance = decimal((about.errors or 0) / about.samples, 1, scale=100, missing="-")
    said = [
        f"In per cent, AURC and AUGRC in thousandths. AP of errors: chance is {chance}. "
        f"{FPR95['right']} AURC: the mean error rate over all coverages; excess: above a perfect "
        "order. AUGRC: the mean share of inputs that are answered wrong.",
        f"Intervals ({100 * about.level:g} %) from {about.resamples:,} resamples of the inputs, "
        "the same for all scores. They are of one network and say nothing of another training.",
    ]
    if about.networks > 1:
        said.append(f"The answers are those of {about.networks} networks together.")
    if about.no_temperature:
        said.append(f"No histogram after temperature: {about.no_temperature}.")
    return said
