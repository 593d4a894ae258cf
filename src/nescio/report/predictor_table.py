"""A comparison as the papers print it: a row a data set, columns predictor by predictor."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from nescio.report.audit_tables import Result, decimal, known

TITLES = {"mean_max_confidence": "MMC", "auroc": "AUROC", "fpr_at_95_tpr": "FPR95"}
SPAN = len(TITLES)  # columns of a predictor
WIDTH = 100  # of the text, off a terminal
LABEL = 20  # widest line of a row's label in the text, unless a word is longer
GAP = "  "  # between columns
SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "[": "{[}", "*": "{*}",  # would be read as options of the end of a line
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Numbers of one data set: {"value", "low", "high"} or None, SPAN for each predictor."""

    label: str
    numbers: Sequence[Result | None]
    published: bool = False


def comparison_text(result: Result, *, width: int | None = None) -> str:
    """The table for a terminal; predictors that do not fit beside each other stand below."""
    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    names, lines = list(result["predictors"]), []
    while names:
        count = len(names)
        while count > 1 and max(map(cell_len, _block(result, names[:count]))) > width:
            count -= 1
        lines += [*_block(result, names[:count]), ""]
        names = names[count:]
    for note in _notes(result, "Below a number"):
        lines += textwrap.wrap(note, width, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def comparison_markdown(result: Result) -> str:
    """The table in Markdown, with the test errors above it and the notes below."""
    names = list(result["predictors"])
    errors = [f"- {name}: {', '.join(e)}" for name in names if (e := _error(result, name, "–"))]
    heads = ["data", *(f"{name} {title}" for name in names for title in TITLES.values())]
    table = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    table += [
        [row.label, *(_inline(number, "–", "({}–{})") for number in row.numbers)]
        for row in _rows(result, names)
    ]
    lines = [f"| {' | '.join(map(in_markdown, line))} |" for line in table]
    parts = [
        "\n".join(map(in_markdown, errors)),
        "\n".join(lines),
        *map(in_markdown, _notes(result, "In brackets")),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def comparison_latex(result: Result, *, intervals: bool = True) -> str:
    """The table as a `tabular` with the rules of booktabs; the notes are comments above it."""
    names = list(result["predictors"])
    brackets = r"{{\scriptsize({}--{})}}" if intervals else ""
    heads = [names, [", ".join(_error(result, name, "--")) for name in names]]
    wide = [[rf"\multicolumn{{{SPAN}}}{{c}}{{{in_latex(h)}}}" for h in head] for head in heads]
    starts = range(2, 2 + SPAN * len(names), SPAN)
    rows = [
        [
            rf"\quad {row.label}" if row.published else in_latex(row.label),
            *(_inline(number, "--", brackets) for number in row.numbers),
        ]
        for row in _rows(result, names)
    ]
    lines = [
        *(f"% {note}" for note in _notes(result, "In brackets" if intervals else "")),
        rf"\begin{{tabular}}{{l{'r' * SPAN * len(names)}}}",
        r"\toprule",
        *(_latex_line(["", *head]) for head in wide),
        " ".join(rf"\cmidrule(lr){{{start}-{start + SPAN - 1}}}" for start in starts),
        _latex_line(["", *list(TITLES.values()) * len(names)]),
        r"\midrule",
        *map(_latex_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_line(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _rows(result: Result, names: Sequence[str]) -> list[Row]:
    """The rows of some predictors: ours, and what was published below."""
    rows = []
    for row in result["sets"]:
        found = [result["predictors"][name]["rows"].get(row, {}) for name in names]
        rows.append(Row(_label(row, found), [cell.get(key) for cell in found for key in TITLES]))
        printed = [result["published"].get(row, {}).get(name, {}) for name in names]
        values = [cell.get(key) for cell in printed for key in TITLES]
        if any(value is not None for value in values):
            alone = [None if value is None else {"value": value} for value in values]
            rows.append(Row("published", alone, published=True))
    return rows


def _label(row: str, found: Sequence[Result]) -> str:
    """The row's name with the number of inputs, or with each predictor's where they differ."""
    counts = ["-" if "skipped" in cell or not cell else f"{cell['samples']:,}" for cell in found]
    different = sorted({*counts} - {"-"})
    if not different:
        return row
    return f"{row} ({different[0] if len(different) == 1 else '; '.join(counts)})"


def _texts(number: Result) -> tuple[str, str, str]:
    """Value and bounds with three decimals; the bounds are empty where there is no interval."""
    value, low, high = (decimal(number.get(key), 3, missing="") for key in ("value", "low", "high"))
    return value, low, high


def _inline(number: Result | None, missing: str, brackets: str) -> str:
    """A cell on one line: a number, then its interval where there is one."""
    if number is None:
        return missing
    value, low, high = _texts(number)
    return f"{value} {brackets.format(low, high)}" if brackets and low else value


def _stacked(number: Result | None) -> list[str]:
    """A cell on two lines: the interval stands below its number."""
    if number is None:
        return ["-"]
    value, low, high = _texts(number)
    return [value, f"{low}-{high}"] if low else [value]


def _block(result: Result, names: Sequence[str]) -> list[str]:
    """Lines of a table of some predictors beside each other."""
    grid = [["", *list(TITLES.values()) * len(names)]]
    for row in _rows(result, names):
        label = ["  published"] if row.published else _wrapped(row.label)
        columns = [label, *map(_stacked, row.numbers)]
        height = max(map(len, columns))
        padded = [[*column, *[""] * (height - len(column))] for column in columns]
        grid += [list(line) for line in zip(*padded, strict=True)]
    heads = [[printable(name), *_error(result, name, "-")] for name in names]
    widths = [max(map(cell_len, column)) for column in zip(*grid, strict=True)]
    rooms = []
    for start, head in zip(range(1, len(widths), SPAN), heads, strict=True):
        room = sum(widths[start : start + SPAN]) + len(GAP) * (SPAN - 1)
        widths[start] += max(0, max(map(cell_len, head)) - room)  # a long head widens its columns
        rooms.append(max(room, *map(cell_len, head)))
    lines = []
    for i in range(max(map(len, heads))):
        parts = [head[i] if i < len(head) else "" for head in heads]
        lines.append(_line(["", *parts], [widths[0], *rooms], right=False))
    lines.append(_line(grid[0], widths, right=True))
    lines.append("-" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    return [*lines, *(_line(cells, widths, right=True) for cells in grid[1:])]


def _wrapped(label: str) -> list[str]:
    return textwrap.wrap(printable(label), LABEL, break_long_words=False, break_on_hyphens=False)


def _line(cells: Sequence[str], widths: Sequence[int], *, right: bool) -> str:
    """Cells side by side; the first is flush left."""
    parts = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - cell_len(cell))
        parts.append(space + cell if right and i else cell + space)
    return GAP.join(parts).rstrip()


def _error(result: Result, name: str, dash: str) -> list[str]:
    """The test error in per cent with its interval, and the published one, where there are."""
    data, texts = result["data"], []
    found = result["predictors"][name]["rows"].get(data, {}).get("error")
    if found is not None:
        value, low, high = (
            decimal(found.get(key), 2, scale=100, missing="-") for key in ("value", "low", "high")
        )
        bounds = "" if known(found["low"]) is None else f" ({low}{dash}{high})"
        texts.append(f"error {value} %{bounds}")
    printed = result["published"].get(data, {}).get(name, {}).get("error")
    if printed is not None:
        texts.append(f"published {decimal(printed, 2, scale=100, missing='-')} %")
    return texts


def _notes(result: Result, intervals: str) -> list[str]:
    """What the numbers mean, and what is missing and why."""
    data = result["data"]
    notes = [
        "MMC: mean maximum confidence; lower is better off the data. AUROC: larger is better, 0.5 "
        f"is chance. FPR95: the share taken for {data} where 95 % of {data} are accepted; lower "
        "is better."
    ]
    if result["resamples"] and intervals:
        share, draws = f"{100 * result['level']:g}", f"{result['resamples']:,}"
        notes.append(f"{intervals}: {share} % bootstrap intervals of {draws} resamples.")
    for row, entry in result["sets"].items():
        if "absent" in entry:
            notes.append(f"{row} was not measured: {entry['absent']}")
    for name, part in result["predictors"].items():
        reasons: dict[str, list[str]] = {}
        for row, cell in part["rows"].items():
            if "skipped" in cell:
                reasons.setdefault(cell["skipped"], []).append(row)
        notes += [f"{' / '.join(rows)}: {name} left out: {why}" for why, rows in reasons.items()]
        blind = {row: cell.get("blind", 0.0) for row, cell in part["rows"].items()}
        notes += [
            f"{row}: the attack on {name} had no gradient to follow on {share:.0%} of the inputs; "
            "that row is no evidence there (attacks.leaking goes on)"
            for row, share in blind.items()
            if share >= 0.01
        ]
    return [printable(note) for note in notes]


def in_markdown(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def in_latex(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in printable(text))


def printable(text: str) -> str:
    """Text as it stands, without control codes from a name."""
    return "".join(c if c.isprintable() else "?" for c in text)
