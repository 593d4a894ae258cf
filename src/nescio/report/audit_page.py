"""An audit as one HTML page: no request leaves it, and it is complete without its script."""

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from nescio.evaluation import Findings, RegressionFindings
from nescio.report.html_table import html
from nescio.report.page_content import Cut, content_of
from nescio.report.page_text import readable
from nescio.report.render import printable

MOST = 5_000_000  # bytes of a page
CUTS = (  # what a page leaves out that would be larger, more and more
    Cut(rows=300, pictures=120),
    Cut(rows=100, pictures=30),
    Cut(rows=30, pictures=0, figures=12),
    Cut(rows=10, pictures=0, figures=0),
)
SPACE = "\N{NO-BREAK SPACE}"


def audit_page(found: Findings | RegressionFindings) -> str:
    """The page of an audit as text, with its figures inside.

    It has at most 5 MB, and says what it leaves out.

    found: findings of an audit.
    """
    for cut in CUTS:
        page = _rendered(found, cut)
        if len(page.encode()) <= MOST:
            break
    return page


def _rendered(found: Findings | RegressionFindings, cut: Cut) -> str:
    from markupsafe import Markup

    script = Markup(_file("script.js"))
    page: str = page_template("page.html", rows=cut.rows).render(
        content_of(found, cut), script=script, script_hash=_hash(script)
    )
    return f"{page}\n"


def page_template(name: str, *, rows: int | None = None) -> Any:
    """A page in this look, which is escaped; rows: of a table, at most."""
    from markupsafe import Markup, escape

    made = escaping_templates(_file, lambda text: readable(text, f"\n{SPACE}"))
    made.filters["joined"] = lambda text: text.replace(" %", f"{SPACE}%")
    made.filters["whole"] = lambda text: Markup(escape(printable(text, "\n")))
    made.filters["table"] = lambda table: Markup(html(table, rows=rows))
    made.globals |= {"style": Markup(_file("style.css")), "paper": Markup(_file("paper.css"))}
    return made.get_template(name)


def escaping_templates(read: Callable[[str], str], harmless: Callable[[str], str]) -> Any:
    """Templates of Jinja, which escape everything.

    read: the text of a template by its name.
    harmless: what is shown of a text of others, without control codes.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def shown(value: Any) -> Any:
        plain = isinstance(value, str) and not hasattr(value, "__html__")
        return harmless(value) if plain else value

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(read),
        finalize=shown,
    )


@cache
def _file(name: str) -> str:
    """A part of the page."""
    return resources.files("nescio.report").joinpath("page", name).read_text("utf-8").strip()


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"sha256-{digest}"
