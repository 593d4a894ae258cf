"""Two audits side by side, as one HTML page that needs nothing else."""

from typing import TYPE_CHECKING, Any

from nescio.report.audit_page import page_template
from nescio.report.diff_words import diff_grid, diff_notes, headline, said
from nescio.version import VERSION

if TYPE_CHECKING:
    from nescio.evaluation import AuditDiff, Change

MIDDLE, REACH = 100.0, 92.0  # of a bar, in its own units


def diff_page(found: "AuditDiff") -> str:
    """The page of two audits side by side, as text.

    found: differences of two audits.
    """
    worse = bool(found.worse)
    return str(
        page_template("diff.html").render(
            found=found,
            title="Worse" if worse else "Not worse",
            status="fail" if worse else "pass",
            headline=headline(found),
            grid=diff_grid(found),
            bars=[_bar(one) for one in found.changes],
            notes=diff_notes(found),
            version=VERSION,
        )
        + "\n"
    )


def _bar(change: "Change") -> dict[str, Any]:
    """Where the interval lies, to the right if it is better."""
    sign = 1.0 if change.better == "higher" else -1.0
    ends = [sign * one for one in (change.low, change.difference, change.high)]
    finite = [one for one in ends if abs(one) < float("inf")]
    most = max([abs(one) for one in finite] + [1e-12])
    low, value, high = (
        round(MIDDLE + REACH * max(-1.0, min(1.0, one / most)), 1) for one in sorted(ends)
    )
    return {
        "label": change.label,
        "word": change.word,
        "words": f"{said(change)}: {change.word}",
        "low": low,
        "value": value,
        "high": high,
    }
