"""Classes left out as a table: a row a detector, means over the splits."""

import textwrap

from nescio.report.audit_tables import Result
from nescio.report.detector_table import MARK, METRICS, Grid, blocks, cell_text, pipes
from nescio.report.predictor_table import WIDTH, in_markdown, printable


def left_out_text(result: Result, *, width: int = WIDTH) -> str:
    """The table for a terminal."""
    lines = [*blocks(_grid(result, MARK), width), ""]
    for note in _notes(result, f"{MARK} "):
        lines += textwrap.wrap(printable(note), width, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def left_out_markdown(result: Result) -> str:
    """The table in Markdown, the notes below."""
    return "\n\n".join([pipes(_grid(result, "**")), *map(in_markdown, _notes(result, "Bold: "))])


def _grid(result: Result, mark: str) -> Grid:
    found = result["detectors"]
    order = sorted(found, key=lambda name: found[name]["auroc"]["value"], reverse=True)
    rows = [
        [
            name,
            *(cell_text(found[name], key, mark, "-") for key in METRICS),
            f"{found[name]['lowest']:.3f} (without {_classes(found[name]['worst'])})",
        ]
        for name in order
    ]
    return Grid(["", *METRICS.values(), "lowest AUROC"], rows)


def _notes(result: Result, marked: str) -> list[str]:
    splits = result["splits"]
    accuracy = sum(one["accuracy"] for one in splits) / len(splits)
    groups = ", ".join(_classes(one["classes"]) for one in splits)
    notes = [
        f"{len(splits)} split{'s' * (len(splits) > 1)}, without the classes {groups}; mean "
        f"accuracy on the known classes {100 * accuracy:.1f} %.",
    ]
    if len(splits) > 1:
        notes.append(
            f"In brackets: {100 * result['level']:g} % intervals of Student's t over the splits. "
            f"{marked}shares the first place: a paired t-test over the splits (all pairs corrected "
            "after Holm) does not set it apart from the best, but does set another one apart."
        )
    return [*notes, *(f"{name} left out: {why}" for name, why in result["left_out"].items())]


def _classes(group: list[int]) -> str:
    return "+".join(map(str, group))
