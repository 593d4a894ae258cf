"""Two audits side by side, as one HTML page that needs nothing else."""

from importlib import resources
from typing import TYPE_CHECKING, Any

from nescio.report.diff_words import diff_grid, diff_notes, headline, said
from nescio.report.html_table import html
from nescio.report.render import printable
from nescio.version import VERSION

if TYPE_CHECKING:
    from nescio.evaluation import AuditDiff, Change

MIDDLE, REACH = 100.0, 92.0  # of a bar, in its own units


def diff_page(found: "AuditDiff") -> str:
    """The page as text."""
    from markupsafe import Markup

    worse = bool(found.worse)
    page = _environment().from_string(_file("diff.html"))
    return str(
        page.render(
            found=found,
            title="Worse" if worse else "Not worse",
            status="fail" if worse else "pass",
            headline=headline(found),
            grid=diff_grid(found),
            bars=[_bar(one) for one in found.changes],
            notes=diff_notes(found),
            version=VERSION,
            style=Markup(_file("diff.css")),
        )
        + "\n"
    )


def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    made.filters["joined"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    made.filters["table"] = lambda table: Markup(html(table))
    return made


def _harmless(value: Any) -> Any:
    """Names of others without control codes, such as marks that turn the text around."""
    plain = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value, "\n\N{NO-BREAK SPACE}") if plain else value


def _file(name: str) -> str:
    return resources.files("nescio.report").joinpath("page", name).read_text("utf-8").strip()


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
