"""Which function has the words of a section.

@words_of("slices")
def slices_words(value: Slices, found: AuditFindings) -> Section: ...
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from nescio.evaluation import AuditFindings, in_order
from nescio.report.audit_section import Section

Words = Callable[[Any, Any], Section]
F = TypeVar("F", bound=Words)
_words: dict[str, Words] = {}


def words_of(name: str) -> Callable[[F], F]:
    """Register the words of a section; used as a decorator."""

    def add(words: F) -> F:
        _words[name] = words
        return words

    return add


def registered(found: AuditFindings) -> list[Section]:
    """The sections of the registry that an audit has, in their order."""
    return [_said(one, found) for one in in_order() if one.name in found.sections]


def _said(one: Any, found: AuditFindings) -> Section:
    """The words of a section; one that fails is shown in its place and loses nothing else."""
    try:
        said = _words[one.name](found.sections[one.name], found)
    except Exception as error:  # whatever it is: the other sections are worth having
        why = f"its numbers are in audit.json, but they could not be shown: {error}"
        said = Section(remarks=[("not shown", why)])
    return replace(said, name=one.name, title=one.title)
