"""Which changes a guarantee survives, and what it takes to guarantee more, in words."""

import math

from nescio.evaluation import AuditFindings, PlannedGuarantee, Planner
from nescio.guards import ShiftBudget
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.section_words import words_of

ROUNDED = 10_000  # hundredths of a per cent
DISTANCE = (
    "The distance is the total variation: the largest difference, over all events, between the "
    "probabilities before and after the change. A distance of 0.01 is reached when any hundredth "
    "of the inputs is replaced by anything, labels included; nothing else is assumed about the "
    "change (the page on guarantees in the documentation has the proof)."
)
PLANNED = (
    "The number of calibration samples with which a guarantee is reached with a probability of "
    "{chance:.0f} %, and in brackets those for the two ends of the 90 % interval of the observed "
    "error rate; there are {now:,}. Coverage is the share of inputs like these that get an answer. "
    "The numbers are estimates; the guarantee is exact once it is given."
)


@words_of("shift budget")
def shift_budget_words(value: ShiftBudget, found: AuditFindings) -> Section:  # noqa: ARG001
    """The distance first, what remains after larger changes, and mixtures with OOD sets."""
    at = Grid(
        corner="distance",
        head=["errors at most", "answered at least", "called OOD at most"],
        rows=[
            (
                f"{one.distance:g}",
                [_at_most(one.risk), _at_least(one.coverage), _at_most(one.false_alarm)],
            )
            for one in value.at
        ],
        title="what still holds after a change by a distance, in per cent",
        samples=f"{value.answered:,} answers among {value.samples:,} test samples",
    )
    mixed = Grid(
        corner="OOD set",
        head=["share of the inputs", "answered"],
        rows=[
            (
                name,
                [_at_least(one.share), Cell(value=one.answered / one.inputs, digits=2, scale=100)],
            )
            for name, one in value.ood.items()
        ],
        title="inputs of one OOD set that may come in while the guarantee holds, in per cent",
        note="Every answer to such an input counts as wrong; each row holds by itself.",
        samples=[f"{one.inputs:,} inputs" for one in value.ood.values()],
    )
    tables = [at, mixed] if value.ood else [at]
    return Section(note=f"{budget_sentence(value)} {DISTANCE}", tables=tables)


def budget_sentence(value: ShiftBudget) -> str:
    """The guarantee under change, in one sentence or two."""
    if not value.distance:
        return (
            f"The test samples show no room for a change of the inputs: {value.errors} errors in "
            f"{value.answered:,} answers bound the error rate by {100 * value.largest_risk:.2g} %, "
            f"not below the guaranteed {100 * value.risk:g} %. The guarantee holds for unchanged "
            "inputs only."
        )
    return value.certificates[0]


@words_of("planner")
def planner_words(value: Planner, found: AuditFindings) -> Section:  # noqa: ARG001
    """A table of guarantees, and the nearest one that is not reached yet."""
    coverages = list(dict.fromkeys(one.coverage for one in value.plans))
    rows = [
        (
            f"at most {100 * risk:g} % errors",
            [_more(one) for one in value.plans if one.risk == risk],
        )
        for risk in dict.fromkeys(one.risk for one in value.plans)
    ]
    table = Grid(
        corner="guarantee",
        head=[f"at {100 * one:g} % coverage" for one in coverages],
        rows=rows,
        title="calibration samples",
        samples=f"{value.samples:,} test samples",
    )
    return Section(
        note=PLANNED.format(now=value.calibration, chance=100 * value.chance),
        tables=[table],
        points=plan_sentences(value),
    )


def plan_sentences(value: Planner) -> list[str]:
    """The nearest guarantee that more labels would give."""
    open_ones = [one for one in value.plans if one.more]
    if not open_ones:
        return []
    nearest = min(open_ones, key=lambda one: one.more or 0)
    return [
        f"To guarantee at most {100 * nearest.risk:g} % errors at {100 * nearest.coverage:g} % "
        f"coverage, label about {nearest.more:,} more samples: at this coverage the error rate is "
        f"{100 * nearest.error:.2g} % on the test data."
    ]


def _more(one: PlannedGuarantee) -> str:
    if one.needed is None:
        clear = one.error >= one.risk
        least = "" if one.low is None else f" ({one.low:,} or more)"
        return f"{'too many errors' if clear else f'over {one.most:,}'}{least}"
    ends = f"{one.low:,} or more" if one.high is None else f"{one.low:,} to {one.high:,}"
    return f"{one.needed:,}{'' if one.more else ', enough'} ({ends})"


def _at_most(share: float | None) -> Cell:
    """An upper bound, rounded so that it is still one."""
    value = None if share is None else math.ceil(share * ROUNDED - 1e-9) / ROUNDED
    return Cell(value=value, digits=2, scale=100)


def _at_least(share: float) -> Cell:
    return Cell(value=math.floor(share * ROUNDED + 1e-9) / ROUNDED, digits=2, scale=100)
