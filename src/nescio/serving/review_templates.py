"""The look of the review pages: templates, which escape everything, the style and the script."""

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from nescio.serving.review_queue import said

FILES = {
    "style.css": "text/css; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def rendered(name: str, **content: Any) -> str:
    """A page.

    name: name of its template.
    content: what the template shows.
    """
    page: str = _templates().get_template(name).render(**content)
    return page


@cache
def _templates() -> Any:
    """The templates, which escape everything."""
    from nescio.report import escaping_templates

    made = escaping_templates(file_text, _harmless)
    made.filters["moment"] = _moment
    made.filters["quoted"] = quote
    made.globals["said"] = said
    return made


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _harmless(text: str) -> str:
    """A text of others without control codes, such as marks that turn the text around."""
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


@cache
def file_text(name: str) -> str:
    """The template, style or script of this `name`."""
    return resources.files("nescio.serving").joinpath("review_page", name).read_text("utf-8")
