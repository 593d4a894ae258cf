"""What changed between two audits, in words and as a table."""

import textwrap
from typing import TYPE_CHECKING, Any

from nescio.report.render import (
    Cell,
    Grid,
    decimal,
    in_markdown,
    pipes,
    printable,
    screen_width,
    table_lines,
)

if TYPE_CHECKING:
    from nescio.evaluation import AuditDiff, Change

SHARES = ("accuracy", "coverage", "wrong answers", "missed answers", "abstained")
MEANINGS = {
    "accuracy": "the share of labels that are right",
    "NLL": "the negative log-likelihood of the truth, in nats",
    "squared error": "the mean squared error, summed over targets",
    "ECE": "the calibration error, over 15 bins",
    "AURC": "the error rate among the most confident answers, averaged over coverages",
    "coverage": "the share of inputs that the guard answers",
    "wrong answers": "the share of inputs that the guard answers wrongly",
    "missed answers": "the share of inputs whose answered interval misses the truth",
    "AUROC": "how well the confidence tells an OOD set from the test data",
    "abstained": "the share of an OOD set on which the guard abstains",
}


def headline(found: "AuditDiff") -> str:
    """What got worse, what got better, and what the data do not tell."""
    parts = []
    for word, ones in (("Worse", found.worse), ("Better", found.improved)):
        if ones:
            parts.append(f"{word}: {'; '.join(map(said, ones))}.")
    if not parts:
        parts.append("No number is shown to have changed.")
    if not found.worse and found.changes:
        parts.append(_room(found))
    return " ".join(parts)


def said(change: "Change") -> str:
    """A number before and after, with the interval of the difference."""
    unit, digits, scale = ("%", 1, 100.0) if change.name in SHARES else ("", 4, 1.0)
    before, after, gap, low, high = (
        decimal(one, digits, scale=scale, missing="-", sign=sign)
        for one, sign in ((change.before, ""), (change.after, ""), (change.difference, "+"),
                          (change.low, "+"), (change.high, "+"))
    )  # fmt: skip
    points = " points" if unit else ""
    unit = f" {unit}" if unit else ""
    return f"{change.label} {before}{unit} to {after}{unit} ({gap}{points}, {low} to {high})"


def _room(found: "AuditDiff") -> str:
    """How much worse the first number could still be: no difference shown is not no difference."""
    one = next((c for c in found.changes if c.word == "no difference shown"), None)
    if one is None:
        return ""
    worst = one.low if one.better == "higher" else one.high
    if (worst < 0) != (one.better == "higher") or worst == 0:
        return ""
    unit, digits, scale = (" points", 1, 100.0) if one.name in SHARES else ("", 4, 1.0)
    size = decimal(abs(worst), digits, scale=scale, missing="-")
    word = "lower" if one.better == "higher" else "higher"
    return f"No difference shown does not mean none: {one.label} may be {size}{unit} {word}."


def diff_grid(found: "AuditDiff") -> Grid:
    """One row per number."""
    rows: list[tuple[str, list[Cell | str]]] = []
    for one in found.changes:
        share = one.name in SHARES
        how: Any = {"digits": 1, "scale": 100.0} if share else {"digits": 4}
        before, after = Cell(value=one.before, **how), Cell(value=one.after, **how)
        gap = Cell(value=one.difference, low=one.low, high=one.high, sign="+", **how)
        p = "under 0.001" if one.adjusted < 0.001 else f"{one.adjusted:.3f}"
        size = f"{one.samples[0]:,}" if one.paired else f"{one.samples[0]:,} and {one.samples[1]:,}"
        kind = "pairs" if one.paired else "separate"
        label = f"{one.label} (%)" if share else one.label
        rows.append((label, [one.word, before, after, gap, p, f"{size} {kind}"]))
    gap_head = f"difference ({100 * found.level:g} % interval)"
    head = ["verdict", "before", "after", gap_head, "p, corrected", "samples"]
    return Grid(corner="", head=head, rows=rows)


def diff_notes(found: "AuditDiff") -> list[str]:
    """What was compared, by which tests, and what could not be."""
    tests = dict.fromkeys(f"{one.name}: {one.test}" for one in found.changes)
    changed = [f"{name}: {one} before, {two} after" for name, (one, two) in found.statuses.items()]
    return [
        *found.pairing,
        f"The chance that any number is called worse or better although nothing changed is at most "
        f"{100 * (1 - found.level):.3g} % (Holm's correction). {'; '.join(tests)}.",
        f"Verdict of the audits: {found.verdicts[0]} before, {found.verdicts[1]} after.",
        *([f"Findings with another status: {'; '.join(changed)}."] if changed else []),
        *([f"Not compared: {'; '.join(found.untested)}."] if found.untested else []),
    ]


def diff_text(found: "AuditDiff") -> str:
    """Two audits side by side, for a terminal.

    found: differences of two audits.
    """
    width = screen_width()
    lines = textwrap.wrap(printable(f"{found.before} and {found.after}"), width)
    lines += textwrap.wrap(printable(headline(found)), width)
    lines += ["", *table_lines(diff_grid(found), width), ""]
    for text in diff_notes(found):
        lines += textwrap.wrap(printable(text), width, break_on_hyphens=False)
    return "\n".join(lines)


def diff_markdown(found: "AuditDiff") -> str:
    """Two audits side by side in Markdown, for a comment or a job page.

    found: differences of two audits.
    """
    title = f"### {'Worse' if found.worse else 'Not worse'}: {found.before} and {found.after}"
    parts = [in_markdown(title), in_markdown(headline(found)), pipes(diff_grid(found))]
    return "\n\n".join([*parts, *map(in_markdown, diff_notes(found))]) + "\n"
