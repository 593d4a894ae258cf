"""What another threshold would do, as a table of some of the steps."""

from nescio.evaluation import AuditFindings, RegressionFindings
from nescio.guards import Thresholds, ThresholdStep
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.section_words import words_of

SHOWN = range(0, 41, 5)  # of the steps, beside the guard's
WORDS = {  # what a wrong and a right answer are, with a label and with an interval
    False: ("that are wrong", "right labels"),
    True: ("whose interval misses the value", "intervals that hold their value"),
}
NOTE = (
    "Shares in per cent. Answered: share of the test samples below a threshold of the {score}; "
    "errors: share of the answers {wrong}, with exact 95 % intervals of each row alone; at "
    "most: a bound of the errors that holds for all thresholds at once with a confidence of "
    "{confidence:.0f} %, so that a row may be chosen by it; withheld: share of the {right} "
    "that get no answer. {out}"
)


@words_of("thresholds")
def threshold_words(value: Thresholds, found: AuditFindings) -> Section:
    """A row for some of the thresholds; `guard` is the guard's."""
    out = f"{value.called_ood} of {value.samples:,} test samples are called OOD at every threshold."
    wrong, right = WORDS[isinstance(found, RegressionFindings)]
    return Section(
        note=NOTE.format(
            score=value.score,
            confidence=100 * value.confidence,
            wrong=wrong,
            right=right,
            out=out if value.own is not None else "",
        ),
        tables=[threshold_table(value)],
    )


def threshold_table(value: Thresholds, steps: range = SHOWN) -> Grid:
    """Some of the steps, and that of the guard."""
    shown = sorted({*steps, *([] if value.own is None else [value.own])})
    head = [
        "answered",
        "errors",
        "at most",
        "withheld",
        *(f"no answer: {one}" for one in value.ood),
    ]
    return Grid(
        corner="threshold",
        head=head,
        rows=[(_label(value, index), _cells(value, value.steps[index])) for index in shown],
        stacked=True,
        samples=f"{value.samples:,} test samples",
    )


def _label(value: Thresholds, index: int) -> str:
    threshold = value.steps[index].threshold
    ends = {True: "all that is not OOD" if value.own is not None else "all", False: "nothing"}
    name = ends[index < len(value.steps) // 2] if threshold is None else f"{threshold:.3g}"
    return f"{name} (the guard's)" if index == value.own else name


def _cells(value: Thresholds, step: ThresholdStep) -> list[Cell | str]:
    own: list[Cell | str] = [
        _share(step.coverage),
        _share(step.risk),
        Cell(value=step.bound, digits=2, scale=100),
        _share(step.false_alarms),
    ]
    return own + [Cell(value=step.abstained[one], digits=1, scale=100) for one in value.ood]


def _share(part: Interval | None) -> Cell | str:
    if part is None:
        return "-"
    return Cell(value=part.value, low=part.low, high=part.high, digits=1, scale=100)
