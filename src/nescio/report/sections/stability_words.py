"""How stable the answers of a network are, in sentences and as a section of the audit."""

from collections.abc import Sequence
from statistics import median

from nescio.evaluation import (
    AdversarialExample,
    AuditFindings,
    ShiftCurves,
    SmallestChanges,
    Stability,
)
from nescio.evaluation.stability import LipschitzFindings
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid, cell_of, known, percent
from nescio.report.sections.cases_words import named
from nescio.report.sections.section_words import words_of

LEVELS = (1, 2, 4, 8, 16)  # of 255, for images
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)  # of the range of each feature
SHOWN = 3  # examples in words
SIZES = {
    "linf": "the largest change of a {unit}",
    "l2": "the root of the sum of squares over all {unit}s",
    "l1": "the sum over all {unit}s",
}
NOTE = (
    "Of correct answers, the share that a change of at most some size flips, in per cent, with "
    "exact 95 % intervals. The flips were found by attacks and checked; there may be smaller ones."
)
CORRUPTED = {  # rows of a table of corruptions: whose number, and its words
    ("network", "accuracy"): "accuracy",
    ("guard", "answered"): "answered by the guard",
    ("guard", "risk"): "errors among its answers",
}
DEFORMED = (
    "Under {kinds}: the share of labels that another view of the image changes, in per cent, "
    "with exact 95 % intervals; the network is the same, and nothing is attacked."
)


def stability_sentences(found: Stability) -> list[str]:
    """What was found, one paragraph for each part; then what is missing, and why."""
    said = []
    if found.changes is not None:
        said.append(_changes(found.changes, images=found.images))
    said += [f"Test sample {one.sample} is {_example(one)}" for one in _best(found.examples)]
    if found.lipschitz is not None:
        said += _constants(found.lipschitz)
    said += [_deformed(kind, curves) for kind, curves in found.deformations.items()]
    if found.patch is not None:
        said.append(found.patch.words())
    return said + [f"Not computed, {part}: {why}" for part, why in found.skipped.items()]


@words_of("stability")
def stability_words(found: Stability, audit: AuditFindings) -> Section:
    """The section of the audit."""
    remarks = []
    if found.changes is not None:
        remarks.append(("smallest change", _changes(found.changes, images=found.images)))
    remarks += [
        (f"test sample {one.sample}", _example(one, audit.class_names))
        for one in _best(found.examples)
    ]
    if found.lipschitz is not None:
        remarks.append(("Lipschitz constant", " ".join(_constants(found.lipschitz))))
    if found.patch is not None:
        remarks.append(("patch", found.patch.words()))
    remarks += [(f"{part}, not computed", why) for part, why in found.skipped.items()]
    kinds = " and ".join(found.deformations)
    deformed = DEFORMED.format(kinds=kinds) if kinds else ""
    note = " ".join([NOTE] * (found.changes is not None) + [deformed] * bool(deformed))
    return Section(note=note, tables=stability_tables(found), remarks=remarks)


def stability_tables(found: Stability) -> list[Grid]:
    """The share that is flipped by the size of a change, by deformations, and by corruptions."""
    tables = []
    if found.changes is not None:
        tables.append(_flipped_table(found.changes, images=found.images))
    tables += [_deformed_table(kind, one) for kind, one in found.deformations.items()]
    return tables + [_corrupted_table(kind, one) for kind, one in found.corruptions.items()]


def flips_half(found: Stability) -> str:
    """A sentence for the verdict."""
    part = found.changes
    middle = None if part is None else known(part.median.value)
    if middle is None:
        return ""
    return (
        f"A change of {change_size(middle)} of the range "
        f"({_norm(found.norm, images=found.images)}) is enough to flip half of its correct answers."
    )


def _changes(found: SmallestChanges, *, images: bool) -> str:
    flipped = sum(size is not None for size in found.size)
    what = f"{flipped} of {len(found.size)} correct answers were flipped"
    middle = found.median
    if known(middle.value) is None:
        return f"{what}; fewer than half, so that the smallest change has no median."
    levels = f", {255 * middle.value:.2g} of 255 levels" if images and found.norm == "linf" else ""
    ends = ["no change found" if known(end) is None else f"{end:.3g}"
            for end in (middle.low, middle.high)]  # fmt: skip
    return (
        f"{what}; half of all by a change of at most {middle.value:.3g} of the range of the data "
        f"({_norm(found.norm, images=images)}{levels}; 95 % interval {ends[0]} to {ends[1]})."
    )


def _norm(norm: str, *, images: bool) -> str:
    return SIZES.get(norm, norm).format(unit="pixel" if images else "feature")


def change_size(share: float) -> str:
    """The size of a change in per cent of the range; in l2 and l1 it may be more than all of it."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _best(examples: Sequence[AdversarialExample]) -> list[AdversarialExample]:
    return sorted(examples, key=lambda one: -one.wrong_confidence)[:SHOWN]


def _example(one: AdversarialExample, names: Sequence[str] | None = None) -> str:
    return (
        f"answered with its label {named(one.label, names)}, confidence "
        f"{percent(one.confidence)}; changed by {change_size(one.size)} of the range it is "
        f"answered with {named(one.wrong, names)}, confidence {percent(one.wrong_confidence)}."
    )


def _constants(found: LipschitzFindings) -> list[str]:
    local, least = found.local, max(found.sampled, *found.local)
    members = f" in {found.members} members" if found.members > 1 else ""
    said = [
        f"The Lipschitz constant of its logits ({found.norm}), exact on the linear regions of "
        f"{len(local) // found.members} samples{members}, is {median(local):.3g} at the median and "
        f"{max(local):.3g} at most; over all inputs it is at least {least:.3g} and at most "
        f"{found.product:.3g}, the product over the layers."
    ]
    if found.proved:
        said.append(
            f"It is proved that no change below {median(found.proved):.2g} of the range flips the "
            "median sample."
        )
    return said


def _deformed(kind: str, curves: ShiftCurves) -> str:
    subject = curves.subjects("flipped")[0]
    shares = curves.curve(subject, "flipped")
    parts = [
        f"{percent(share)} by {one.name}"
        for one, share in zip(curves.sets, shares, strict=True)
        if one.strength
    ]
    return f"{kind.capitalize()} changes this share of the labels: {', '.join(parts)}."


def _cell(share: Interval) -> Cell:
    return Cell(value=share.value, low=share.low, high=share.high, digits=1, scale=100)


def _flipped_table(found: SmallestChanges, *, images: bool) -> Grid:
    levels = images and found.norm == "linf"
    if levels:
        sizes = {f"{level} / 255": level / 255 for level in LEVELS}
    else:
        factor = 1.0 if found.norm == "linf" else max(10 * (known(found.median.value) or 0.1), 0.1)
        sizes = {f"{share * factor:.2g}": share * factor for share in SHARES}
    cells = [_cell(found.within(size)) for size in sizes.values()]
    return Grid(
        corner="a change of at most",
        head=list(sizes),
        rows=[("flips", cells)],
        title="by the size of a change",
        stacked=True,
        samples=f"{len(found.size):,} correct answers",
    )


def _corrupted_table(kind: str, curves: ShiftCurves) -> Grid:
    rows = []
    for (subject, metric), label in CORRUPTED.items():
        found = [curves.results.row(subject, one.name, metric) for one in curves.sets]
        if any(row is not None for row in found):
            rows.append((label, [cell_of(row, digits=1, scale=100) for row in found]))
    return Grid(
        corner="in per cent",
        note=f"{curves.description[:1].upper()}{curves.description[1:]}.",
        head=[one.name for one in curves.sets],
        rows=rows,
        title=f"under {kind}",
        stacked=True,
        samples=f"{curves.samples:,} test samples",
    )


def _deformed_table(kind: str, curves: ShiftCurves) -> Grid:
    moved = [one for one in curves.sets if one.strength]
    rows = []
    for subject in curves.subjects("flipped"):
        found = [curves.results.row(subject, one.name, "flipped") for one in moved]
        rows.append((subject, [cell_of(row, digits=1, scale=100) for row in found]))
    head = [one.name for one in moved]
    return Grid(
        corner=kind,
        head=head,
        rows=rows,
        title=f"under {kind}",
        stacked=True,
        samples=f"{curves.samples:,} samples",
    )
