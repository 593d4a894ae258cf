"""The worst cases as tables for the terminal, and as pictures on the page."""

from collections.abc import Sequence

from nescio.evaluation import AuditFindings, Cases, TrainingNeighbor, WorstCase
from nescio.report.audit_section import PagePicture, Pictures, Section
from nescio.report.render import Grid
from nescio.report.sections.section_words import words_of

COPIED = 50  # row numbers of a remark
NOTE = (
    "Single samples to look at; rows are counted from 0. An error that a person would make, too, "
    "asks for better data; one that nobody would make asks for a better network."
)
TITLES = {
    "errors": "confident errors",
    "surprising": "values that surprise most, in predicted deviations",
    "ood": "OOD inputs that are answered with confidence",
    "abstained": "right answers on which the guard abstains",
    "intervals": "intervals that hold their value, and are withheld by the guard",
}
ONE = dict(
    zip(
        TITLES.values(),
        (
            "confident error",
            "surprising value",
            "confident OOD input",
            "right but withheld",
            "held but withheld",
        ),
        strict=True,
    )
)


@words_of("cases")
def cases_words(value: Cases, found: AuditFindings) -> Section:
    """A table, pictures and row numbers of each kind."""
    numbers = any(one.confidence is None for one in value.errors)
    kinds = {
        TITLES["surprising" if numbers else "errors"]: value.errors,
        TITLES["ood"]: value.ood,
        TITLES["intervals" if numbers else "abstained"]: value.abstained,
    }
    shown = {title: cases for title, cases in kinds.items() if cases}
    names = found.class_names
    return Section(
        note=NOTE,
        tables=[_table(title, cases, names, value.samples) for title, cases in shown.items()],
        pictures=[
            _pictures(ONE[title], one, names)
            for title, cases in shown.items()
            for one in cases
            if one.view.picture is not None
        ],
        remarks=_remarks(value, numbers=numbers),
    )


def _remarks(value: Cases, *, numbers: bool) -> list[tuple[str, str]]:
    remarks = []
    if not value.error_count:
        remarks.append(("no error", f"all {value.samples:,} test samples are answered correctly"))
    elif not numbers:
        said = copied(value.error_rows, value.error_count)
        remarks.append(("rows of the errors, the most confident first", said))
    if value.abstained_count:
        said = copied(value.abstained_rows, value.abstained_count)
        what = "intervals that hold their value and" if numbers else "right answers that"
        remarks.append((f"rows of {what} are withheld", said))
    if value.space is not None:
        near = f"training samples at the smallest distance in {value.space}"
        remarks.append(("neighbors", near))
    elif value.no_neighbors is not None:
        remarks.append(("no neighbors", value.no_neighbors))
    return remarks


def copied(rows: Sequence[int], count: int) -> str:
    """Row numbers to copy, `12, 55, 67`, and how many more there are."""
    more = f" and {count - COPIED:,} more, in audit.json" if count > COPIED else ""
    return ", ".join(map(str, rows[:COPIED])) + more


def _table(
    title: str, cases: Sequence[WorstCase], names: Sequence[str] | None, samples: int
) -> Grid:
    """One row per sample: what it is, what was answered, and its neighbors."""
    rows = [(_row(one), _cells(one, names)) for one in cases]
    words = any(one.view.words for one in cases)
    head = ["label", "answer", "confidence", "guard", "nearest training rows (label)", "input"]
    if cases[0].confidence is None:
        head[:3] = ["true value", "mean", "deviation"]
        head[4] = "nearest training rows (value)"
    empty = [] if words else ["input"]
    empty += ["label"] if all(one.label is None for one in cases) else []
    kept = [i for i, name in enumerate(head) if name not in empty]
    test = cases[0].data == "test"
    return Grid(
        title=title,
        corner="sample",
        head=[head[i] for i in kept],
        rows=[(label, [cells[i] for i in kept]) for label, cells in rows],
        samples=f"{samples:,} test samples, of which these are the worst"
        if test
        else "the OOD sets, the worst of each",
    )


def _row(one: WorstCase) -> str:
    return f"{one.data}, row {one.sample}"


def _cells(one: WorstCase, names: Sequence[str] | None) -> list[str]:
    known = "-" if one.label is None else named(one.label, names)
    spread = one.deviation if one.confidence is None else None
    sure = _share(one.confidence) if one.confidence is not None else f"{spread or 0:.3g}"
    near = ", ".join(_near(n, names) for n in one.neighbors) or "-"
    return [known, named(one.answer, names), sure, one.decision or "-", near, one.view.words or "-"]


def _near(neighbor: TrainingNeighbor, names: Sequence[str] | None) -> str:
    label = "" if neighbor.label is None else f" ({named(neighbor.label, names)})"
    return f"{neighbor.sample}{label}"


def named(label: float, names: Sequence[str] | None) -> str:
    """The name of a class, its number, or a value."""
    if isinstance(label, float) and not label.is_integer():
        return f"{label:.4g}"
    index = int(label)
    return str(names[index]) if names is not None and 0 <= index < len(names) else f"{label:g}"


def _share(confidence: float | None) -> str:
    """In per cent; what only rounds to all of it does not read so."""
    if confidence is None:
        return "-"
    return "over 99.99 %" if 0.9999 < confidence < 1 else f"{100 * confidence:.4g} %"


def _pictures(title: str, one: WorstCase, names: Sequence[str] | None) -> Pictures:
    """A sample, followed by its nearest training samples."""
    return Pictures(title=f"{title}: {_row(one)}", items=_with_neighbors(one, names))


def _with_neighbors(one: WorstCase, names: Sequence[str] | None) -> list[PagePicture]:
    if one.view.picture is None:
        return []
    answered = f"answered {named(one.answer, names)}, {_share(one.confidence)}"
    truth = [] if one.label is None else [f"is {named(one.label, names)}"]
    guard = [] if one.decision is None else [f"guard: {one.decision}"]
    first = PagePicture(
        png=one.view.picture,
        alt=f"{_row(one)}: {', '.join([*truth, answered])}",
        lines=(_row(one), *truth, answered, *guard),
    )
    return [first, *(_neighbor(near, names) for near in one.neighbors if near.view.picture)]


def _neighbor(near: TrainingNeighbor, names: Sequence[str] | None) -> PagePicture:
    assert near.view.picture is not None
    label = () if near.label is None else (f"is {named(near.label, names)}",)
    row = f"training row {near.sample}"
    lines = (row, *label, f"distance {near.distance:.3g}")
    return PagePicture(png=near.view.picture, alt=f"neighbor: {', '.join(lines)}", lines=lines)
