"""A comparison of detectors as tables: a row a detector, a column an OOD set."""

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from nescio.core import NescioError, unknown
from nescio.report.audit_tables import Result, decimal
from nescio.report.predictor_table import GAP, WIDTH, in_latex, in_markdown, printable

METRICS = {"auroc": "AUROC", "aupr": "AUPR", "fpr_at_95_tpr": "FPR95"}
COSTS = ("fit, ms", "score 1000, ms", "kept, MB")
WIDEST = 34  # letters of a detector's name in the text
MARK = "*"
MARKED = {MARK: "*{}", "**": "**{}**", "latex": r"\textbf{{{}}}"}  # a number that is marked


@dataclass(frozen=True)
class Grid:
    """A table of texts; the first cell of a row is its label."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def detection_text(result: Result, *, width: int | None = None) -> str:
    """The AUROCs of each OOD set, the means and the costs, for a terminal."""
    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    lines = [f"AUROC, {result['data']} ({result['samples']:,} inputs) against", ""]
    lines += [*blocks(metric_grid(result, "auroc", mark=MARK, dash="-"), width), ""]
    lines += ["means over the OOD sets, and costs", ""]
    lines += [*blocks(cost_grid(result, ("aupr", "fpr_at_95_tpr")), width), ""]
    for note in notes(result, f"{MARK} "):
        lines += textwrap.wrap(printable(note), width, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def detection_markdown(result: Result) -> str:
    """A table for each metric, one of means and costs, and the notes."""
    parts = []
    for key, title in METRICS.items():
        grid = metric_grid(result, key, mark="**", dash="–")
        parts += [f"{title}, {result['data']} ({result['samples']:,} inputs) against", pipes(grid)]
    parts += ["Costs", pipes(cost_grid(result, ()))]
    parts += map(in_markdown, notes(result, "Bold: "))
    return "\n\n".join(parts) + "\n"


def detection_latex(result: Result, metric: str = "auroc") -> str:
    """One metric as a `tabular` with the rules of booktabs; the notes are comments above it."""
    if metric not in METRICS:
        raise NescioError(unknown("metric", metric, METRICS))
    grid = metric_grid(result, metric, mark="latex", dash="--", brackets="")
    lines = [
        *(f"% {note}" for note in [METRICS[metric], *notes(result, "Bold: ")]),
        rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
        r"\toprule",
        f"{' & '.join(map(in_latex, grid.head))} \\\\",
        r"\midrule",
        *(f"{' & '.join([in_latex(row[0]), *row[1:]])} \\\\" for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def metric_grid(
    result: Result,
    key: str,
    *,
    mark: str,
    dash: str,
    brackets: str = " ({}-{})",
) -> Grid:
    """One metric: a row a detector, best mean AUROC first; a column an OOD set, then the means."""
    sets = list(result["groups"]["all"])
    groups = result["groups"] if len(sets) > 1 else {}
    kinds = _kinds(result)
    head = ["", *(f"{row}{kinds[row]}" for row in sets), *(f"mean, {g}" for g in groups)]
    rows = []
    for name in ranked(result):
        part = result["detectors"][name]
        cells = [*(part["rows"][row] for row in sets), *(part["means"][g] for g in groups)]
        rows.append([name, *(cell_text(cell, key, mark, dash, brackets) for cell in cells)])
    return Grid(head, rows)


def cost_grid(result: Result, metrics: Sequence[str]) -> Grid:
    """Means of some metrics over all OOD sets, and what each detector costs."""
    head = ["", *(f"mean {METRICS[key]}" for key in metrics), *COSTS]
    rows = []
    for name in ranked(result):
        part = result["detectors"][name]
        means = [cell_text(part["means"]["all"], key, MARK, "-", "") for key in metrics]
        fit, score = (f"{1000 * part[f'{key}_seconds']:,.1f}" for key in ("fit", "score"))
        passes = " +" if part["own_pass"] else ""
        rows.append([name, *means, fit, f"{score}{passes}", f"{part['bytes'] / 1e6:,.2f}"])
    return Grid(head, rows)


def ranked(result: Result) -> list[str]:
    """The detectors, best mean AUROC first."""
    found = result["detectors"]
    return sorted(found, key=lambda n: found[n]["means"]["all"]["auroc"]["value"], reverse=True)


def notes(result: Result, marked: str) -> list[str]:
    """What the numbers mean, what was tuned on what, what is missing and why."""
    data, share = result["data"], f"{100 * result['level']:g}"
    flagged = (
        f"the share of {data} that is flagged where 95 % of the OOD data are caught"
        if result["positive"] == "ood"
        else f"the share of OOD data taken for {data} where 95 % of {data} are accepted"
    )
    said = [
        f"{marked}shares the first place: a paired test (DeLong; all pairs corrected after Holm) "
        f"does not set it apart from the best, but does set another one apart.",
        f"FPR95: {flagged}. AUPR: {result['positive']} is positive; chance is its share.",
        f"Intervals ({share} %): of AUROC after DeLong; of the others "
        + (f"from {result['resamples']:,} resamples." if result["resamples"] else "none were made.")
        + " They are of one trained network and say nothing of another training.",
        f"One forward pass for all: {1000 * result['forward_seconds']:,.1f} ms for 1000 inputs. "
        "Scores are beside it; +: with passes of its own. Kept: the fitted tensors.",
    ]
    if result["networks"] > 1:
        said.append(
            f"{result['networks']} networks: detectors are fitted to each, and scores averaged; "
            "measures read all answers together."
        )
    said += [f"{name} {how}" for name, part in result["detectors"].items() if (how := _odin(part))]
    for row, entry in result["sets"].items():
        if "absent" in entry:
            said.append(f"{row} is not at hand: {entry['absent']}")
        elif entry["in_train"]:
            said.append(
                f"{row}: {entry['in_train']} of its {entry['samples']} inputs are among the "
                "training inputs; what was fitted there flatters itself."
            )
    said += [f"{name} left out: {why}" for name, why in result["left_out"].items()]
    return said


def _odin(part: Result) -> str:
    """How the temperature and radius of ODIN came about, and what they are."""
    if part["detector"] != "odin":
        return ""
    options, tuned = part["options"], part["tuned"]
    chosen = f"temperature {options['temperature']:g}, radius {options['radius']:g}."
    if tuned is None:
        return f"was not tuned: {chosen}"
    on = f"{tuned['on']} ({tuned['ood']} inputs)" if tuned["on"] else "no OOD data"
    return f"was tuned on {on} by {tuned['by']}: {chosen}"


def _kinds(result: Result) -> Mapping[str, str]:
    """Near or far behind the name of an OOD set, where both occur."""
    if "near" not in result["groups"]:
        return dict.fromkeys(result["groups"]["all"], "")
    near = result["groups"]["near"]
    return {row: " (near)" if row in near else " (far)" for row in result["groups"]["all"]}


def cell_text(cell: Result, key: str, mark: str, dash: str, brackets: str = " ({}-{})") -> str:
    """A number, marked where it shares the first place, and its interval where there is one."""
    number = cell.get(key)
    if number is None:
        return dash
    value, low, high = (decimal(number.get(k), 3, missing="") for k in ("value", "low", "high"))
    if key == "auroc" and cell.get("best", False):
        value = MARKED[mark].format(value)
    return f"{value}{brackets.format(low, high)}" if brackets and low else value


def blocks(grid: Grid, width: int) -> list[str]:
    """The table in as many parts, one below the other, as its width needs."""
    labels = [_short(printable(row[0])) for row in grid.rows]
    first = max(map(cell_len, labels), default=0)
    columns = [[printable(cell) for cell in column] for column in zip(*grid.rows, strict=True)]
    heads = [printable(head) for head in grid.head]
    widths = [max(cell_len(h), *map(cell_len, c)) for h, c in zip(heads, columns, strict=True)]
    lines: list[str] = []
    start = 1
    while start < len(heads):
        end = start + 1
        while (
            end < len(heads) and first + sum(w + len(GAP) for w in widths[start : end + 1]) <= width
        ):
            end += 1
        part = range(start, end)
        lines += [] if start == 1 else [""]
        lines.append(_line("", [heads[i] for i in part], first, [widths[i] for i in part]))
        lines.append("-" * cell_len(lines[-1]))
        for place, label in enumerate(labels):
            cells = [columns[i][place] for i in part]
            lines.append(_line(label, cells, first, [widths[i] for i in part]))
        start = end
    return lines


def _line(label: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    padded = [" " * (w - cell_len(c)) + c for c, w in zip(cells, widths, strict=True)]
    return GAP.join([label + " " * (first - cell_len(label)), *padded])


def _short(name: str) -> str:
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"


def pipes(grid: Grid) -> str:
    table = [grid.head, ["---", *["---:"] * (len(grid.head) - 1)], *grid.rows]
    return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in table)
