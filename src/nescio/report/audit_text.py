"""An audit for the terminal: a verdict in words, then the tables."""

import sys
import textwrap

from nescio.core import is_terminal
from nescio.evaluation import Findings, RegressionFindings, verdict_of
from nescio.report.audit_report import report_of
from nescio.report.audit_section import Section
from nescio.report.render import printable, screen_width, table_lines

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def audit_text(
    found: Findings | RegressionFindings, *, width: int | None = None, styled: bool | None = None
) -> str:
    """The audit as text; by default plain and 100 wide unless standard output is a terminal."""
    styled = is_terminal(sys.stdout) if styled is None else styled
    lines = _Lines(min(100, screen_width()) if width is None else width, styled)
    report = report_of(found)
    lines.said(verdict_of(found).words, BOLD)
    lines.said(report.guard)
    if report.usage is not None:
        lines.verbatim(f"    {report.usage[1]}")
    lines.said(report.warned, BOLD)
    first, *others = report.verdict
    for sentence in (report.headline, first):
        lines.said(sentence)
    if others:
        lines.said(report.compared, *others)
    if report.advice:
        lines.said("What to do", BOLD, end=False)
        lines.said(*report.advice)
    for section in report.sections:
        lines.section(section)
    return "\n".join(lines.lines).rstrip() + "\n"


class _Lines:
    """Lines of at most a width, with styles where they are asked for."""

    def __init__(self, width: int, styled: bool) -> None:
        self.width, self.styled, self.lines = width, styled, list[str]()

    def said(self, *texts: str, end: bool = True) -> None:
        """Sentences, one paragraph each; a style among them counts for those before it."""
        style = texts[-1] if texts[-1] in (BOLD, DIM) else ""
        for text in texts[: len(texts) - bool(style)]:
            if not text:
                return
            wrapped = textwrap.wrap(printable(text), self.width, break_on_hyphens=False)
            on = style and self.styled
            self.lines += [f"{style}{line}{PLAIN}" if on else line for line in wrapped]
        self.lines += [""] if end else []

    def verbatim(self, text: str) -> None:
        """A command, which is not broken."""
        self.lines += [printable(text), ""]

    def section(self, part: Section) -> None:
        """The title, what it means, the tables, and remarks."""
        one = len(part.tables) == 1
        self.said(part.title, BOLD, end=False)
        self.said(part.note, DIM, end=not one)
        for table in part.tables:
            if table.title:
                self.said(f"{part.title}: {table.title}", BOLD, end=False)
            self.lines += [*table_lines(table, self.width), ""]
        for name, why in part.remarks:
            self.said(f"{name}: {why.rstrip('.')}.")
