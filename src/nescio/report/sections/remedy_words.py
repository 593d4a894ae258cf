"""What would help, as a table of changes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nescio.evaluation import AuditFindings, Gain, Remedies, TriedRemedy
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.section_words import words_of

SCALES = {"error rate": 100.0, "ECE": 100.0, "NLL": 1.0, "coverage off 90 %": 100.0}
SCALES |= {"interval score": 1.0, "RMSE": 1.0}
UNITS = {"error rate": "points", "ECE": "points", "NLL": "nats", "coverage off 90 %": "points"}
UNITS |= {"interval score": "deviations", "RMSE": "deviations"}
NOTE = (
    "The change that each remedy makes, on samples that fitted nothing: below 0 it helps. 95 % "
    "intervals from paired resamples, each by itself; where one holds 0, chance may explain it."
)


DEVIATIONS = (
    "Off 90 %: how far the share of targets in 90 % intervals is from 90 %. The interval score is "
    "the width plus 20 times what an interval misses its target by. It and the RMSE are in "
    "standard deviations of the test targets."
)


@words_of("interval remedies")
def interval_remedy_words(value: Remedies, found: AuditFindings) -> Section:
    """The same of a regression."""
    section = remedy_words(value, found)
    return replace(section, note=f"{section.note} {DEVIATIONS}")


@words_of("remedies")
def remedy_words(value: Remedies, found: AuditFindings) -> Section:  # noqa: ARG001
    """A row for each remedy, then what was not tried."""
    measures = [name for name in SCALES if any(name in one.gains for one in value.remedies)]
    table = Grid(
        corner="remedy",
        head=[*(f"{name}, {UNITS[name]}" for name in measures), "answered, %"],
        rows=[(one.name, _cells(one, measures)) for one in value.remedies],
        title="change",
        stacked=True,
        samples=[f"{one.samples:,} samples" for one in value.remedies],
    )
    return Section(
        note=NOTE,
        tables=[table] if value.remedies else [],
        remarks=[(one.name, remedy_sentence(one)) for one in value.remedies],
        points=[f"Not tried, {name}: {why}." for name, why in value.not_tried.items()],
    )


def remedy_sentence(one: TriedRemedy) -> str:
    """How it was made, and what it changes beyond chance."""
    said = [f"{name} {_from_to(name, gain)}" for name, gain in one.gains.items()
            if gain.word != "no clear change"]  # fmt: skip
    return f"{one.how}: {', '.join(said) or 'no clear change'}."


def _from_to(name: str, gain: Gain) -> str:
    scale, unit = SCALES[name], " %" if SCALES[name] > 1 else ""
    return f"{gain.word}, from {scale * gain.now:.3g}{unit} to {scale * gain.then:.3g}{unit}"


def _cells(one: TriedRemedy, measures: Sequence[str]) -> list[Cell | str]:
    cells: list[Cell | str] = []
    for name in measures:
        gain = one.gains.get(name)
        if gain is None:
            cells.append("-")
            continue
        ends: Any = {"low": gain.low, "high": gain.high, "scale": SCALES[name]}
        cells.append(Cell(value=gain.change, digits=2 if SCALES[name] > 1 else 3, sign="+", **ends))
    share = one.coverage
    cells.append(
        "-"
        if share is None
        else Cell(value=share.value, low=share.low, high=share.high, digits=1, scale=100)
    )
    return cells
