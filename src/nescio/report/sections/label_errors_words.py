"""Likely wrong labels in words: the list, and how far it can be trusted."""

from nescio.evaluation import AuditFindings, LabelErrors
from nescio.metrics import Interval
from nescio.report.audit_section import Section
from nescio.report.render import Grid, percent
from nescio.report.sections.cases_words import copied, named
from nescio.report.sections.section_words import words_of

NOTE = (
    "Test samples for which the network gives another class a probability as high as that class "
    "usually has. A confident error of the network looks the same as a wrong label, so a person "
    "has to look at each before a label is changed. In ten well-known test sets people found 51 % "
    "of such samples mislabeled on average (Northcutt, Athalye and Mueller, 2021)."
)


@words_of("label errors")
def label_errors_words(value: LabelErrors, found: AuditFindings) -> Section:
    """The most suspect labels, the check by planted errors, and row numbers."""
    names = found.class_names
    rows = [
        (
            f"row {one.sample}",
            [
                named(one.label, names),
                percent(one.probability),
                named(one.predicted, names),
                percent(one.confidence),
            ],
        )
        for one in value.suspects
    ]
    table = Grid(
        title=f"the {len(rows)} most suspect of {value.count:,} labels",
        corner="test sample",
        head=["label", "its probability", "predicted", "confidence"],
        rows=rows,
        samples=f"{value.samples:,} test samples",
    )
    remarks = [("how far to trust the list", _check(value))]
    if value.rows:
        remarks.append(("rows, the most suspect first", copied(value.rows, value.count)))
    else:
        remarks.append(("no suspect", f"none of {value.samples:,} labels is in the list"))
    return Section(note=f"{NOTE} {_judges(value)}", tables=[table] if rows else [], remarks=remarks)


def _judges(value: LabelErrors) -> str:
    if value.neighbors:
        return "The nearest training samples must speak against the label, too."
    return "Training data with labels (train=, --train) would let neighbors judge, too."


def _check(value: LabelErrors) -> str:
    """What the planted errors show."""
    planted = value.planted
    said = (
        f"of {planted.changed:,} labels that were changed at random to test it, such a list holds "
        f"{percent(planted.found.value)} ({_ends(planted.found)})"
    )
    if planted.precision is None:
        return f"{said}: it finds none"
    share = f"{percent(planted.precision.value)} ({_ends(planted.precision)})"
    return (
        f"{said}; of the {planted.listed:,} samples of that list {share} are the changed ones. "
        "Errors that people make between similar classes are harder to find than random ones"
    )


def _ends(share: Interval) -> str:
    return f"{percent(share.low)} to {percent(share.high)}"
