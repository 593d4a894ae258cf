"""Samples that occur twice, in words: how many, which, and what the accuracy is without them."""

from nescio.evaluation import AuditFindings, Duplicate, Duplicates, Repeats
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid, percent
from nescio.report.sections.cases_words import copied, named
from nescio.report.sections.section_words import words_of

PAIRS = 10  # in a table
NOTE = (
    "Exact duplicates have the same numbers. A near-duplicate is so much closer to one sample than "
    "to the next ones that the spacing of the data does not explain it; of those named at most 1 % "
    "are false in expectation. For images neither brightness nor contrast counts. Copies that were "
    "shifted, turned or mirrored are missed."
)


@words_of("duplicates")
def duplicates_words(value: Duplicates, found: AuditFindings) -> Section:
    """Counts, the first pairs, and the numbers without leaked samples."""
    parts = {"training data": value.in_training, "test data, earlier": value.in_test}
    tables = [_counts(parts, value.samples)]
    tables += [
        _pairs(where, part, found)
        for where, part in parts.items()
        if part is not None and part.pairs
    ]
    return Section(note=NOTE, tables=tables, remarks=_remarks(value))


def _counts(parts: dict[str, Repeats | None], samples: int) -> Grid:
    rows: list[tuple[str, list[Cell | str]]] = [
        (
            where,
            [
                _count(part.exact),
                "-" if part.near is None else _count(part.near),
                "-" if part.conflicts is None else _count(part.conflicts),
            ],
        )
        for where, part in parts.items()
        if part is not None
    ]
    return Grid(
        corner="test samples that are in the",
        head=["exactly", "nearly", "with another label"],
        rows=rows,
        title="how many",
        samples=f"{samples:,} test samples",
    )


def _count(number: int) -> Cell:
    return Cell(value=float(number), digits=0)


def _pairs(where: str, part: Repeats, found: AuditFindings) -> Grid:
    few = part.pairs[:PAIRS]
    head = ["repeats row", "how"]
    labels = any(one.label is not None and one.other_label is not None for one in few)
    return Grid(
        title=f"pairs with the {where} (the first {len(few)} of {part.count:,})",
        corner="test sample",
        head=[*head, "labels"] if labels else head,
        rows=[(f"row {one.sample}", _pair(one, found, labels=labels)) for one in few],
        samples=f"{part.count:,} test samples",
    )


def _pair(one: Duplicate, found: AuditFindings, *, labels: bool) -> list[Cell | str]:
    cells: list[Cell | str] = [str(one.other), "exact" if one.exact else "near"]
    if labels:
        both = (one.label, one.other_label)
        said = ["-" if label is None else named(label, found.class_names) for label in both]
        cells.append(said[0] if said[0] == said[1] else " and ".join(said))
    return cells


def _remarks(value: Duplicates) -> list[tuple[str, str]]:
    remarks = []
    leaked = value.in_training
    if leaked is None:
        remarks.append(("not compared", "there are no training data: give train=, or --train"))
    elif leaked.count:
        remarks.append(("without those in the training data", _without(value)))
        remarks.append(("their rows", copied(leaked.rows, leaked.count)))
    if leaked is not None and leaked.by_chance:
        share = percent(leaked.by_chance)
        remarks.append(("by chance", f"{share} of the training samples equal another one, too"))
    for where, part in {"training data": leaked, "test data": value.in_test}.items():
        if part is not None and part.skipped is not None:
            remarks.append((f"near-duplicates in the {where} not looked for", part.skipped))
        elif part is not None and part.looked_at < value.samples - value.in_test.exact:
            some = f"{part.looked_at:,} test samples among {part.among:,}, drawn at random"
            remarks.append((f"near-duplicates in the {where} were looked for", some))
    return remarks


def _without(value: Duplicates) -> str:
    if value.accuracy is not None and value.accuracy_without is not None:
        ends = value.accuracy_without
        return (
            f"the accuracy is {percent(ends.value)} ({percent(ends.low)} to {percent(ends.high)}), "
            f"with them {percent(value.accuracy.value)}"
        )
    if value.mean_error is not None and value.mean_error_without is not None:
        return (
            f"the mean absolute error is {value.mean_error_without:.4g}, with them "
            f"{value.mean_error:.4g}"
        )
    return "no sample is left"
