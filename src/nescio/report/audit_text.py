"""An audit for the terminal: a verdict in words, then the tables."""

import io
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nescio.evaluation.answers import ADVERSARIAL
from nescio.report.audit_tables import (
    CALIBRATION_COLUMNS,
    CALIBRATION_NOTE,
    FAILURE_COLUMNS,
    FAILURE_NOTE,
    FAR_COLUMNS,
    QUALITY_COLUMNS,
    QUALITY_NOTE,
    READING,
    Result,
    Separation,
    attack_notes,
    calibration_notes,
    calibration_rows,
    confidence_rows,
    decimal,
    failure_notes,
    failure_rows,
    far_kinds,
    far_rows,
    guard_notes,
    guard_rows,
    guard_sentence,
    guard_usage,
    not_followed,
    ood_names,
    quality_rows,
    separation_rows,
)
from nescio.report.audit_tables import COLUMNS as GUARD_COLUMNS
from nescio.report.audit_words import advice, compared, headline, range_warning, verdict

GAP = 2  # spaces between columns: one of padding, one of the rule
NAME = 26  # widest first column; longer names fold
WORD = 14  # widest word in the head of a column; longer ones fold
SLACK = 3  # how much wider than needed a column becomes where there is room
RULE = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
NOTE = (
    "AUROC / FPR95. Outside is the positive class. AUROC: larger is better, 0.5 is chance, below "
    "0.5 the outside looks more certain than the test data. FPR95: share of the test data flagged "
    "when 95 % of the outside is caught; smaller is better. A dash: the measure is "
    "the same for every sample."
)
ATTACK_NOTE = (
    "Adversarial noise: the surest inputs that gradient ascent finds near noise, a predictor at a "
    "time. The radius is a share of the range of the data. A longer attack may find surer ones."
)
FAR_NOTE = (
    "Certain: the share of directions in which all probability goes to one class in the limit. "
    "Factors are medians; 1 is the distance of the data (for single features: one standard "
    "deviation from a test point). At once: the data themselves. Never: not within half of the "
    "directions. Factors are followed on 10 to 50 of the rays. Exact up to float64 rounding."
)


def audit_text(result: Result, *, width: int | None = None, styled: bool | None = None) -> str:
    """The audit as text; by default plain and 100 wide unless standard output is a terminal."""
    terminal = sys.stdout.isatty()
    if width is None:
        width = min(100, shutil.get_terminal_size().columns) if terminal else 100
    styled = terminal if styled is None else styled
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=styled, force_jupyter=False)
    _print(console, result)
    lines = file.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _print(console: Console, result: Result) -> None:
    usage = guard_usage(result)
    if said := guard_sentence(result):
        console.print(_plain(said, "bold"))
        console.print()
    if usage is not None:
        console.print(_plain(f"    {usage[1]}"), soft_wrap=True)
        console.print()
    if warned := range_warning(result):
        console.print(_plain(warned, "bold"))
        console.print()
    first, *others = verdict(result)
    for sentence in [headline(result), first]:
        console.print(_plain(sentence))
        console.print()
    if others:
        for sentence in [compared(result), *others]:
            console.print(_plain(sentence))
        console.print()
    if todo := advice(result):
        console.print(_plain("What to do", "bold"))
        for sentence in todo:
            console.print(_plain(sentence))
        console.print()
    rows = quality_rows(result, missing="-")
    console.print(_plain("How right and how sure", "bold"))
    console.print(_plain(QUALITY_NOTE, "dim"))
    _print_table(console, "predictor", QUALITY_COLUMNS, rows)
    _print_trusted(console, result)
    names = list(result["predictors"])
    if ood_names(result):
        console.print(_plain("How sure, on the data and off them", "bold"))
        console.print(_plain("Mean maximum confidence in %.", "dim"))
        _print_table(console, "data", names, confidence_rows(result, missing="-"))
    for where in ood_names(result):
        cells = [(m, [_cell(s) for s in row]) for m, row in separation_rows(result, where)]
        console.print(_plain(f"Telling {where} from the test data", "bold"))
        _print_table(console, "measure", names, cells)
    if ood_names(result):
        console.print(_plain(NOTE, "dim"))
    if any(where.startswith(ADVERSARIAL) for where in ood_names(result)):
        console.print(_plain(ATTACK_NOTE, "dim"))
    for name, why in attack_notes(result):
        console.print()
        console.print(_plain(f"{name}: {why}"))
    _print_far(console, result)


def _print_trusted(console: Console, result: Result) -> None:
    """The guard, calibration and failure prediction."""
    if rows := guard_rows(result):
        console.print(_plain("What the guard does", "bold"))
        console.print(_plain(" ".join([*guard_notes(result), READING]), "dim"))
        _print_table(console, "data", GUARD_COLUMNS, rows)
    if rows := calibration_rows(result, missing="-"):
        console.print(_plain("Is confidence earned?", "bold"))
        held = (
            f"Before and after temperature, {result['held_out']}. " if "held_out" in result else ""
        )
        console.print(_plain(held + CALIBRATION_NOTE, "dim"))
        _print_table(console, "predictor", CALIBRATION_COLUMNS, rows)
    for name, why in calibration_notes(result):
        console.print(_plain(f"{name}: no temperature. {why}"))
        console.print()
    rows, notes = failure_rows(result, missing="-"), failure_notes(result)
    if rows or notes:
        console.print(_plain("Are its errors found?", "bold"))
    if rows:
        console.print(_plain(FAILURE_NOTE, "dim"))
        _print_table(console, "predictor and score", FAILURE_COLUMNS, rows)
    for name, why in notes:
        console.print(_plain(f"{name}: {why}."))
        console.print()


def _print_far(console: Console, result: Result) -> None:
    if far_kinds(result) and ood_names(result):
        console.print()
    for kind in far_kinds(result):
        console.print(_plain(f"Infinitely far away: {kind}", "bold"))
        _print_table(console, "predictor", FAR_COLUMNS, far_rows(result, kind, missing="-"))
    if far_kinds(result):
        console.print(_plain(FAR_NOTE, "dim"))
    for name, why in not_followed(result):
        console.print()
        console.print(_plain(f"No far field for {name}: {why}"))


def _print_table(
    console: Console, corner: str, columns: Sequence[str], rows: Sequence[tuple[str, list[str]]]
) -> None:
    """One table, or several below each other when the columns do not fit beside each other."""
    first = min(NAME, max(len(corner), *(len(name) for name, _ in rows), 0))
    needs = [
        max(_longest_word(title), *(len(cells[i]) for _, cells in rows), 0)
        for i, title in enumerate(columns)
    ]
    for start, stop in pairwise(_breaks(needs, console.width - first)):
        table = Table(box=RULE, padding=(0, GAP - 1, 0, 0), show_edge=False, pad_edge=False)
        table.add_column(_plain(corner), width=first, overflow="fold")
        spare = console.width - first - sum(needs[start:stop]) - GAP * (stop - start)
        wider = max(0, min(SLACK, spare // max(stop - start, 1)))
        for title, need in zip(columns[start:stop], needs[start:stop], strict=True):
            table.add_column(_plain(title), justify="right", width=need + wider, overflow="fold")
        for name, cells in rows:
            table.add_row(_plain(name), *(_plain(cell) for cell in cells[start:stop]))
        console.print(table)
        console.print()


def _longest_word(title: str) -> int:
    return min(WORD, max((len(word) for word in title.split()), default=0))


def _breaks(needs: Sequence[int], room: int) -> list[int]:
    """Where to start a new table so that each fits into `room`."""
    breaks, used = [0], 0
    for i, need in enumerate(needs):
        if used and used + need + GAP > room:
            breaks.append(i)
            used = 0
        used += need + GAP
    return [*breaks, len(needs)]


def _cell(numbers: Separation) -> str:
    if numbers.auroc is None and numbers.fpr is None:
        return "-"
    return f"{decimal(numbers.auroc, 3, missing='-')} / {decimal(numbers.fpr, 3, missing='-')}"


def _plain(text: str, style: str = "") -> Text:
    """Text as it stands: no markup, and no control codes from a name."""
    return Text("".join(c if c.isprintable() else "?" for c in text), style=style)
