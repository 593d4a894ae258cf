"""One table, many media: text for a terminal, Markdown, LaTeX and HTML from the same value."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from nescio.core import is_terminal
from nescio.core.results import FIELDS, Results, Row

WIDTH = 100  # of the text, off a terminal
LABEL = 34  # widest line of a row's label in the text
HEAD = 16  # widest line of a column's head where its cells are narrower
GAP = "  "
SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "[": "{[}", "*": "{*}",  # would be read as options of the end of a line
}  # fmt: skip
METRICS = {
    "accuracy": "accuracy", "auroc": "AUROC", "aupr": "AUPR", "fpr_at_95_tpr": "FPR95",
    "fpr_at_tpr": "FPR95", "mean_max_confidence": "MMC", "ap_error": "AP of errors",
    "ap_success": "AP of successes", "aurc": "AURC", "augrc": "AUGRC",
    "excess_aurc": "excess AURC", "ece": "ECE",
    "nll": "NLL", "brier": "Brier", "rmse": "RMSE", "lowest_auroc": "lowest AUROC",
}  # fmt: skip

FPR95 = {  # by the positive class: two conventions are in print, and one for errors
    "ood": "FPR95 (OOD is positive): the share of {data} that is flagged where 95 % of the OOD "
    "data are caught; smaller is better.",
    "in_dist": "FPR95 (in-distribution is positive): the share of the OOD data that is accepted "
    "where 95 % of {data} are; smaller is better.",
    "right": "FPR95 (right answers are positive): the share of the errors that is accepted where "
    "95 % of the right answers are; smaller is better.",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number with its interval; `best` marks it, `shade` from -1 to 1 colors it in HTML."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 3
    scale: float = 1.0
    sign: str = ""
    best: bool = False
    after: str = ""
    shade: float | None = None


@dataclass(frozen=True, kw_only=True)
class Medium:
    """How one medium writes a cell."""

    dash: str
    best: str
    interval: str  # of low and high; empty: none
    signed: str  # the same of numbers that may be negative


TEXT = Medium(dash="-", best="*{}", interval=" ({}-{})", signed=" ({} to {})")
STACKED = Medium(dash="-", best="*{}", interval="\n{}-{}", signed="\n{} to {}")
MARKDOWN = Medium(dash="–", best="**{}**", interval=" ({}–{})", signed=" ({} to {})")
LATEX = Medium(dash="--", best=r"\textbf{{{}}}", interval=r" {{\scriptsize({}--{})}}",
              signed=r" {{\scriptsize({} to {})}}")  # fmt: skip
BARE = Medium(dash="--", best=r"\textbf{{{}}}", interval="", signed="")


@dataclass(frozen=True, kw_only=True)
class Group:
    """A head above several columns, with lines below its title."""

    title: str
    lines: tuple[str, ...] = ()
    span: int


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Labels with cells, under a head; numbers are written as each medium does."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | str]]]
    title: str = ""
    corner: str = ""
    groups: Sequence[Group] = ()
    stacked: bool = False  # intervals below their numbers in the text
    note: str = ""  # above the table
    samples: str | Sequence[str] = ""  # what the numbers rest on: of the table, or of each row


@dataclass(frozen=True, kw_only=True)
class Page:
    """Tables with notes below them."""

    tables: Sequence[Grid]
    notes: Sequence[str] = field(default=())

    def text(self, width: int | None = None) -> str:
        """For a terminal."""
        width = width or screen_width()
        lines: list[str] = []
        for table in self.tables:
            lines += [*_titles(table, width), *table_lines(table, width), ""]
        for note in self._noted("* "):
            lines += textwrap.wrap(printable(note), width, break_on_hyphens=False)
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """Pipe tables."""
        parts: list[str] = []
        for table in self.tables:
            parts += [*filter(None, [table.title, *_group_lines(table)]), pipes(table)]
        return "\n\n".join([*parts, *map(in_markdown, self._noted("Bold: "))]) + "\n"

    def latex(self, *, intervals: bool = True) -> str:
        """A `tabular` for each table; the notes are comments above."""
        notes = [f"% {printable(note)}" for note in self._noted("Bold: ") if note]
        return "\n".join([*notes, *(latex(table, intervals) for table in self.tables)]) + "\n"

    def html(self) -> str:
        """Tables for a notebook."""
        from nescio.report.html_table import escaped, html

        parts = [f"<h4>{escaped(t.title)}</h4>" * bool(t.title) + html(t) for t in self.tables]
        return "\n".join([*parts, *(f"<p>{escaped(note)}</p>" for note in self._noted("* "))])

    def _noted(self, mark: str) -> list[str]:
        return [note.replace("{mark}", mark) for note in self.notes]


def screen_width() -> int:
    """Of the terminal, or 100."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else WIDTH


COUNTED, LESS = "labels to", " less "  # metrics of whole numbers begin so; differences have it


def pivot(results: Results, rows: str | Sequence[str] = (), columns: str = "") -> Grid:
    """Rows of results as a table; by default metrics, else data sets, are the columns."""
    varies = [what for what in FIELDS if len(results.names(what)) > 1]
    columns = columns or ("data" if varies[-1:] == ["data"] else "metric")
    chosen = ([rows] if isinstance(rows, str) else list(rows)) or [
        what for what in ("data", "subject") if what in varies and what != columns
    ]
    chosen = chosen or ["subject"]
    heads = results.names(columns)
    cells: dict[tuple[str, ...], dict[str, Cell]] = {}
    for row in results.rows:
        key = tuple(getattr(row, what) for what in chosen)
        digits, sign = 0 if row.metric.startswith(COUNTED) else 3, "+" if LESS in row.metric else ""
        cells.setdefault(key, {})[getattr(row, columns)] = cell_of(row, digits=digits, sign=sign)
    return Grid(
        corner=", ".join(chosen),
        head=[METRICS.get(one, one) if columns == "metric" else one for one in heads],
        rows=[
            (", ".join(key), [found.get(one, "-") for one in heads]) for key, found in cells.items()
        ],
    )


def cell_of(row: Row | None, *, digits: int = 3, scale: float = 1.0, sign: str = "") -> Cell:
    """A row as a cell; the note "best" marks it, another note stands behind it."""
    if row is None:
        return Cell(value=None)
    after = "" if row.note in ("", "best") else f" ({row.note})"
    return Cell(value=row.value, low=row.low, high=row.high, digits=digits, scale=scale, sign=sign,
                best=row.note == "best", after=after)  # fmt: skip


def known(value: float | None) -> float | None:
    """The number, or None if it is missing or not finite."""
    return None if value is None or not abs(value) < float("inf") else float(value)


def decimal(
    value: float | None, digits: int, *, scale: float = 1.0, missing: str, sign: str = ""
) -> str:
    """A number with a fixed count of decimals, or `missing`; never a negative zero."""
    number = known(value)
    return missing if number is None else f"{round(scale * number, digits) + 0.0:{sign}.{digits}f}"


def percent(value: float | None) -> str:
    """A share in per cent; what only rounds to all or nothing does not read so."""
    share = known(value)
    if share is None:
        return "an unknown share"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    if share >= 0.9995:
        return "over 99.9 %"
    return "under 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def shown(cell: Cell | str, style: Medium) -> str:
    """A cell as text."""
    if isinstance(cell, str):
        return style.dash if cell == "-" else cell
    value, low, high = (
        decimal(one, cell.digits, scale=cell.scale, missing="", sign=cell.sign)
        for one in (cell.value, cell.low, cell.high)
    )
    if not value:
        return style.dash
    signed = cell.sign or cell.scale != 1 or "-" in low + high
    interval = style.signed if signed else style.interval
    bounds = interval.format(low, high) if low and interval else ""
    return f"{style.best.format(value) if cell.best else value}{bounds}{cell.after}"


def table_lines(table: Grid, width: int) -> list[str]:
    """The table in as many parts, one below the other, as the width needs."""
    style = STACKED if table.stacked else TEXT
    labels = [_wrapped(label, 20 if table.groups else LABEL) for label, _ in table.rows]
    first = max([cell_len(table.corner), *(cell_len(line) for label in labels for line in label)])
    columns = [
        [printable(shown(row[i], style), "\n").split("\n") for _, row in table.rows]
        for i in range(len(table.head))
    ]
    widths = [max((cell_len(line) for cell in column for line in cell), default=0)
              for column in columns]  # fmt: skip
    widths = [max(w, min(cell_len(h), HEAD)) for w, h in zip(widths, table.head, strict=True)]
    units = _units(table)
    for group, members in units:
        need = max([0, *map(cell_len, group)])
        have = sum(widths[i] for i in members) + len(GAP) * (len(members) - 1)
        widths[members[0]] += max(0, need - have)
    lines: list[str] = []
    while units:
        count, used = 0, first
        for _, members in units:
            used += sum(widths[i] + len(GAP) for i in members)
            if count and used > width:
                break
            count += 1
        part, units = units[:count], units[count:]
        lines += [*([""] if lines else []), *_block(table, labels, columns, widths, first, part)]
    return lines


Unit = tuple[list[str], list[int]]  # lines above some columns, and which they are


def _units(table: Grid) -> list[Unit]:
    """Columns that stay together."""
    if not table.groups:
        return [([], [i]) for i in range(len(table.head))]
    units, start = [], 0
    for group in table.groups:
        lines = [printable(line) for line in (group.title, *group.lines)]
        units.append((lines, list(range(start, start + group.span))))
        start += group.span
    return units


def _block(
    table: Grid,
    labels: list[list[str]],
    columns: list[list[list[str]]],
    widths: list[int],
    first: int,
    units: list[Unit],
) -> list[str]:
    """Some columns beside each other, under their heads."""
    chosen = [i for _, members in units for i in members]
    rooms = [
        sum(widths[i] for i in members) + len(GAP) * (len(members) - 1) for _, members in units
    ]
    heads = [_padded([group for group, _ in units], row) for row in range(_height(units))]
    lines = [_line("", texts, first, rooms, right=False) for texts in heads]
    titles = [_wrapped(table.head[i], widths[i]) for i in chosen]
    lines += _stack([table.corner], titles, first, [widths[i] for i in chosen], bottom=True)
    lines.append("-" * (first + sum(widths[i] + len(GAP) for i in chosen)))
    for place, label in enumerate(labels):
        cells = [columns[i][place] for i in chosen]
        lines += _stack(label, cells, first, [widths[i] for i in chosen])
    return lines


def _height(units: list[Unit]) -> int:
    return max(len(group) for group, _ in units)


def _padded(groups: list[list[str]], row: int) -> list[str]:
    return [group[row] if row < len(group) else "" for group in groups]


def _stack(
    label: list[str], cells: list[list[str]], first: int, widths: list[int], *, bottom: bool = False
) -> list[str]:
    """One row of cells that may have several lines each."""
    high = max(len(label), *map(len, cells)) if cells else len(label)
    fill = [[*[""] * (high - len(c)), *c] if bottom else [*c, *[""] * (high - len(c))]
            for c in (label, *cells)]  # fmt: skip
    return [_line(fill[0][i], [c[i] for c in fill[1:]], first, widths) for i in range(high)]


def _line(
    label: str, cells: Sequence[str], first: int, widths: Sequence[int], *, right: bool = True
) -> str:
    parts = [label + " " * (first - cell_len(label))]
    for cell, width in zip(cells, widths, strict=True):
        space = " " * (width - cell_len(cell))
        parts.append(space + cell if right else cell + space)
    return GAP.join(parts).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    lines = textwrap.wrap(printable(text), max(width, 8), break_on_hyphens=False) or [""]
    return [f"{indent}{line}" if indent else line for line in map(str.lstrip, lines)]


def _titles(table: Grid, width: int) -> list[str]:
    return [*textwrap.wrap(printable(table.title), width), ""] if table.title else []


def _group_lines(table: Grid) -> list[str]:
    """What stands below the titles of groups, as a list in Markdown."""
    said = [f"- {g.title}: {', '.join(g.lines)}" for g in table.groups if any(g.lines)]
    return ["\n".join(map(in_markdown, said))] if said else []


def heads(table: Grid) -> list[str]:
    """One head per column, with the title of its group."""
    titles = [group.title for group in table.groups for _ in range(group.span)]
    return (
        [f"{t} {h}" for t, h in zip(titles, table.head, strict=True)]
        if titles
        else list(table.head)
    )


def pipes(table: Grid) -> str:
    """The table in Markdown."""
    lines = [[table.corner, *heads(table)], ["---", *["---:"] * len(table.head)]]
    lines += [[label.strip(), *(shown(c, MARKDOWN) for c in cells)] for label, cells in table.rows]
    rows = [[in_markdown(" ".join(cell.splitlines())) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def latex(table: Grid, intervals: bool = True) -> str:
    """A `tabular` with the rules of booktabs."""
    style = LATEX if intervals else BARE
    head = [" & ".join(["", *map(in_latex, table.head)]) + r" \\"]
    if table.groups:
        wide = [[(g.span, g.title) for g in table.groups],
                [(g.span, ", ".join(g.lines)) for g in table.groups]]  # fmt: skip
        starts = [2 + sum(g.span for g in table.groups[:i]) for i in range(len(table.groups))]
        rules = zip(starts, table.groups, strict=True)
        above = [
            " & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{in_latex(t)}}}" for n, t in row)])
            for row in wide
        ]
        head = [
            *(f"{row} \\\\" for row in above),
            " ".join(rf"\cmidrule(lr){{{s}-{s + g.span - 1}}}" for s, g in rules),
            *head,
        ]
    rows = [
        " & ".join([_latex_label(label), *(_latex_cell(c, style) for c in cells)]) + r" \\"
        for label, cells in table.rows
    ]
    title = [f"% {printable(table.title)}"] if table.title else []
    start = rf"\begin{{tabular}}{{l{'r' * len(table.head)}}}"
    lines = [*title, start, r"\toprule", *head, r"\midrule", *rows, r"\bottomrule",
             r"\end{tabular}"]  # fmt: skip
    return "\n".join(lines)


def _latex_label(label: str) -> str:
    return rf"\quad {in_latex(label.strip())}" if label.startswith(" ") else in_latex(label)


def _latex_cell(cell: Cell | str, style: Medium) -> str:
    return in_latex(cell) if isinstance(cell, str) and cell != "-" else shown(cell, style)


def in_markdown(text: str) -> str:
    """Text that cannot break a Markdown table, nor become a tag, a link or a picture."""
    plain = printable(text, "\n").replace("|", "\\|").replace("<", "&lt;")
    return plain.replace("](", "]\\(")


def in_latex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(SPECIAL.get(character, character) for character in printable(text))


def printable(text: str, also: str = "") -> str:
    """Text without control codes from a name."""
    return "".join(c if c.isprintable() or c in also else "?" for c in text)
