"""Accuracy by class and by group, as tables."""

from collections.abc import Sequence

from nescio.evaluation import AuditFindings, GroupFindings, GroupRow, GroupTable
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.section_words import words_of

SHOWN = 30  # rows of a table
CLASSES = (
    "Accuracy, overconfidence (mean confidence less accuracy) and ECE in per cent, the worst "
    "groups first. Intervals are exact, and each holds with 95 % for its group alone: of 40 of "
    "them, about 2 miss. The p-value is that of Fisher's exact test of the errors of a group "
    "against those of all other samples, corrected for the {tests} groups of all tables (Holm). "
    "The ECE of a small group is large by chance already."
)
NUMBERS = (
    "The share of targets inside the predicted {central:.0f} % interval, in per cent, and the mean "
    "absolute error, the worst groups first. Intervals hold with 95 % for one group alone: exact "
    "for shares, resampled for errors. The p-value is that of Fisher's exact test of the misses of "
    "a group against those of all other samples, corrected for the {tests} groups of all tables "
    "(Holm)."
)


@words_of("groups")
def groups_words(value: GroupFindings, found: AuditFindings) -> Section:  # noqa: ARG001
    """A table for the classes and for each column of groups."""
    tests = next(iter(value.tables.values())).tests
    note = CLASSES.format(tests=f"{tests:,}")
    if value.central is not None:
        note = NUMBERS.format(tests=f"{tests:,}", central=100 * value.central)
    remarks = [
        (f"{by} {row.name}", _worse(row, value.central))
        for by, table in value.tables.items()
        for row in table.rows
        if row.worse
    ]
    remarks += [
        (f"{by}, without test samples", first_of(table.absent, SHOWN))
        for by, table in value.tables.items()
        if table.absent
    ]
    tables = [_grid(table, value) for table in value.tables.values()]
    return Section(title="", note=note, tables=tables, remarks=remarks)


def first_of(names: Sequence[object], most: int) -> str:
    """The first ones of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def _worse(row: GroupRow, central: float | None) -> str:
    assert row.others is not None
    what = "right" if central is None else f"inside the {100 * central:.0f} % interval"
    return (
        f"{100 * row.accuracy.value:.1f} % of its {row.samples:,} samples are {what}, of the "
        f"others {100 * row.others:.1f} %: more than chance explains (p = {row.p:.2g}, corrected)."
    )


def _grid(table: GroupTable, found: GroupFindings) -> Grid:
    rows, numbers = table.rows[:SHOWN], found.central is not None
    more = table.groups - len(rows)
    title = f"by {table.by}" + (f", the worst {len(rows)} of {table.groups:,}" if more else "")
    head = ["samples", "inside", "mean error", "p"] if numbers else [
        "samples", "accuracy", "overconfidence", "ECE", "p",
    ]  # fmt: skip
    return Grid(
        title=title,
        corner=table.by,
        head=head,
        rows=[(row.name, _cells(row, numbers)) for row in rows],
        samples=f"{found.samples:,} test samples; each row says how many are of its group",
    )


def _cells(row: GroupRow, numbers: bool) -> list[Cell | str]:
    p = f"{row.p:.2g}" if row.p >= 1e-4 else "< 0.0001"
    if numbers:
        error = row.mean_error
        mean = "-" if error is None else _cell(error, scale=1.0, digits=3)
        return [f"{row.samples:,}", _cell(row.accuracy), mean, p]
    gap = "-" if row.overconfidence is None else _cell(row.overconfidence, sign="+")
    ece = Cell(value=row.ece, digits=1, scale=100)
    return [f"{row.samples:,}", _cell(row.accuracy), gap, ece, p]


def _cell(part: Interval, scale: float = 100.0, digits: int = 1, sign: str = "") -> Cell:
    return Cell(
        value=part.value, low=part.low, high=part.high, digits=digits, scale=scale, sign=sign
    )
