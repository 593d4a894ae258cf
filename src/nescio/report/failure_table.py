"""A comparison of failure scores as a table: a row a score, best precision of errors first."""

import shutil
import sys
import textwrap

from nescio.report.audit_tables import Result, decimal
from nescio.report.detector_table import Grid, blocks, pipes
from nescio.report.predictor_table import WIDTH, in_markdown, printable

TITLES = {
    "ap_error": "AP of errors",
    "ap_success": "AP of successes",
    "auroc": "AUROC",
    "fpr_at_tpr": "FPR95",
    "aurc": "AURC",
    "excess_aurc": "excess AURC",
}
THOUSANDTHS = ("aurc", "excess_aurc")  # as they are usually printed


def failure_text(result: Result, *, width: int | None = None) -> str:
    """The numbers and the differences, for a terminal."""
    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    lines = [_title(result), "", *blocks(metric_grid(result), width), ""]
    lines += [f"less those of the {result['baseline']}", ""]
    lines += [*blocks(difference_grid(result), width), ""]
    for note in notes(result):
        lines += textwrap.wrap(printable(note), width, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def failure_markdown(result: Result) -> str:
    """The numbers, the differences and the notes."""
    parts = [_title(result), pipes(metric_grid(result))]
    parts += [f"Less those of the {result['baseline']}:", pipes(difference_grid(result))]
    return "\n\n".join([*parts, *map(in_markdown, notes(result))]) + "\n"


def metric_grid(result: Result) -> Grid:
    """Every metric with its interval."""
    rows = [
        [name, *(_cell(result["scores"][name]["metrics"][key], key) for key in TITLES)]
        for name in ranked(result)
    ]
    return Grid(["", *TITLES.values()], rows)


def difference_grid(result: Result) -> Grid:
    """Every metric less that of the baseline, with the interval of paired resamples."""
    rows = [
        [name, *(_cell(part[key], key, sign="+") for key in TITLES)]
        for name in ranked(result)
        if (part := result["scores"][name]["difference"]) is not None
    ]
    return Grid(["", *TITLES.values()], rows)


def ranked(result: Result) -> list[str]:
    """The scores, best AP of errors first."""
    found = result["scores"]
    return sorted(found, key=lambda n: found[n]["metrics"]["ap_error"]["value"], reverse=True)


def notes(result: Result) -> list[str]:
    """What the numbers mean."""
    share = f"{100 * result['level']:g}"
    chance = decimal(result["errors"] / result["samples"], 1, scale=100, missing="-")
    said = [
        f"In per cent, AURC in thousandths. AP of errors: chance is {chance}. FPR95: the share of "
        "errors accepted where 95 % of the right answers are. AURC: the mean error rate over all "
        "coverages; excess: above a perfect order.",
        f"Intervals ({share} %) from {result['resamples']:,} resamples of the inputs, the same for "
        "all scores. They are of one network and say nothing of another training.",
    ]
    if result["networks"] > 1:
        said.append(f"The answers are those of {result['networks']} networks together.")
    if why := result.get("no_temperature"):
        said.append(f"No histogram after temperature: {why}.")
    return said


def _title(result: Result) -> str:
    return (
        f"Errors of the network on {result['data']}: {result['errors']:,} of {result['samples']:,} "
        "inputs"
    )


def _cell(number: Result, key: str, sign: str = "") -> str:
    scale = 1000 if key in THOUSANDTHS else 100
    digits = 2 if key in (*THOUSANDTHS, "ap_success") else 1
    value, low, high = (scale * number[part] for part in ("value", "low", "high"))
    return f"{value:{sign}.{digits}f} ({low:{sign}.{digits}f} to {high:{sign}.{digits}f})"
