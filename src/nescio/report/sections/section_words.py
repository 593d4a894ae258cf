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
    shown = [one for one in in_order() if one.name in found.sections]
    return [
        replace(_words[one.name](found.sections[one.name], found), name=one.name, title=one.title)
        for one in shown
    ]
