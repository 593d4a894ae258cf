"""Slices in sentences and as a table."""

from nescio.evaluation import AuditFindings, Slice, SliceFindings, Slices
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.groups_words import first_of
from nescio.report.sections.section_words import words_of

COLUMNS, COPIED = 12, 20  # names of columns and row numbers that are listed
NOTE = (
    "All groups of samples that one or two conditions describe were searched ({conjunctions} of "
    "them, on {columns}): on one half of the {samples} test samples, and on the other. The "
    "clearest {tested} were tested on the half that was not searched, with exact tests that are "
    "corrected for their number: if the network is equally good everywhere, any slice is reported "
    "with a chance of {level:g} % at most. Shares are in per cent, of the samples that were not "
    "searched; intervals hold for all tested slices at once (95 %)."
)
NONE = "None was confirmed. That does not prove that there is none: small or slight ones escape."


@words_of("slices")
def slices_words(value: SliceFindings, found: AuditFindings) -> Section:  # noqa: ARG001
    """What was searched and how, the slices, and the rows of their errors."""
    first = value.searches[0]
    note = NOTE.format(
        conjunctions=f"{first.conjunctions:,}",
        columns=first_of(first.columns, COLUMNS),
        samples=f"{first.samples:,}",
        tested=sum(one.tested for one in value.searches),
        level=100 * sum(one.level for one in value.searches),
    )
    remarks = [
        (str(one), _remark(search, one)) for search in value.searches for one in search.found
    ]
    if not remarks:
        remarks = [("slices", NONE)]
    tables = [_grid(search) for search in value.searches if len(search)]
    return Section(title="", note=note, tables=tables, remarks=remarks)


def _remark(search: Slices, one: Slice) -> str:
    said = search.words(one).removeprefix(f"{one}: ")
    return f"{said}. Rows: {first_of(one.rows, COPIED)}"


def _grid(search: Slices) -> Grid:
    sure = search.found[0].mean_confidence is not None
    head = ["samples", search.event, "others"]
    head += ["others of equal confidence", "mean confidence"] * sure + ["p"]
    return Grid(
        corner="slice",
        head=head,
        rows=[(str(one), _cells(one, sure)) for one in search.found],
        samples="the test samples of each slice that were not searched, as many as its row says",
    )


def _cells(one: Slice, sure: bool) -> list[Cell | str]:
    rate = one.error_rate
    cells: list[Cell | str] = [
        f"{one.samples:,}",
        Cell(value=rate.value, low=rate.low, high=rate.high, digits=1, scale=100),
        Cell(value=one.others, digits=1, scale=100),
    ]
    if sure:
        cells += [Cell(value=v, digits=1, scale=100) for v in (one.alike, one.mean_confidence)]
    p = min(one.p_wrong, 1.0 if one.p_overconfident is None else one.p_overconfident)
    return [*cells, f"{p:.2g}" if p >= 1e-4 else "< 0.0001"]
