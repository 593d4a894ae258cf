"""What would help, as a table of changes."""

from typing import Any

from nescio.evaluation import AuditFindings, Gain, Remedies, TriedRemedy
from nescio.report.audit_section import Section
from nescio.report.render import Cell, Grid
from nescio.report.sections.section_words import words_of

SCALES = {"error rate": 100.0, "ECE": 100.0, "NLL": 1.0}
HEADS = {"error rate": "error rate, points", "ECE": "ECE, points", "NLL": "NLL, nats"}
NOTE = (
    "The change that each remedy makes, on samples that fitted nothing: below 0 it helps. 95 % "
    "intervals from paired resamples, each by itself; where one holds 0, chance may explain it."
)


@words_of("remedies")
def remedy_words(value: Remedies, found: AuditFindings) -> Section:  # noqa: ARG001
    """A row for each remedy, then what was not tried."""
    table = Grid(
        corner="remedy",
        head=[*HEADS.values(), "answered, %"],
        rows=[(one.name, _cells(one)) for one in value.remedies],
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


def _cells(one: TriedRemedy) -> list[Cell | str]:
    cells: list[Cell | str] = []
    for name in HEADS:
        gain = one.gains.get(name)
        if gain is None:
            cells.append("-")
            continue
        ends: Any = {"low": gain.low, "high": gain.high, "scale": SCALES[name]}
        cells.append(Cell(value=gain.change, digits=3 if name == "NLL" else 2, sign="+", **ends))
    share = one.coverage
    cells.append(
        "-"
        if share is None
        else Cell(value=share.value, low=share.low, high=share.high, digits=1, scale=100)
    )
    return cells
