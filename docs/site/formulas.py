"""Formulas as MathML, converted when the site is built: a page needs no script for them."""

import html
import re

from latex2mathml.converter import convert

MARKED = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


class FormulaError(ValueError):
    """A formula that cannot be converted."""


def with_mathml(page: str) -> str:
    """HTML with every formula as MathML."""
    return MARKED.sub(_converted, page)


def _converted(found: re.Match[str]) -> str:
    latex = html.unescape(found[3]).strip()
    display = "block" if found[2] == "[" else "inline"
    try:
        made = convert(re.sub(r"\\arg\b", r"\\operatorname{arg}", latex), display=display)
    except Exception as error:  # of many kinds
        raise FormulaError(f"the formula {latex!r} cannot be converted: {error!r}") from error
    if unknown := re.search(r"<m[io]>(\\[A-Za-z]+)</m[io]>", made):
        raise FormulaError(f"the formula {latex!r} has an unknown command, {unknown[1]}")
    return made if display == "inline" else f'<div class="formula">{made}</div>'
