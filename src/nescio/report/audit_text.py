"""An audit for the terminal: the verdict and its findings on one screen, or with the tables."""

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from nescio.core import is_terminal
from nescio.evaluation import Finding, Findings, RegressionFindings, Verdict, verdict_of
from nescio.report.audit_report import report_of
from nescio.report.audit_section import Section
from nescio.report.render import printable, screen_width, table_lines
from nescio.report.verdict_words import limit_of, number_of

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
JOIN = "\N{NO-BREAK SPACE}%"
INDENT = 11  # of findings, beside their statuses
HEIGHT = 22  # lines of the verdict on a screen of 24
NARROW = 60  # columns of a screen where statuses have no column
REASONS = 3  # of sections that were not run, on one screen


def audit_text(
    found: Findings | RegressionFindings, *, width: int | None = None, styled: bool | None = None
) -> str:
    """The audit as text; by default plain and 100 wide unless standard output is a terminal."""
    styled = is_terminal(sys.stdout) if styled is None else styled
    lines = _Lines(min(100, screen_width()) if width is None else width, styled)
    report = report_of(found)
    verdict = verdict_of(found)
    lines.verdict(verdict, verdict.shown)
    lines.lines.append("")
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


def verdict_text(
    verdict: Verdict,
    *,
    width: int | None = None,
    height: int | None = HEIGHT,
    styled: bool | None = None,
) -> str:
    """The verdict and its findings: one screen of a terminal, by default 80 columns elsewhere.

    height: lines; findings that passed are left out where there are more. None: no limit.
    """
    styled = is_terminal(sys.stdout) if styled is None else styled
    width = min(80, screen_width()) if width is None else width
    shown = list(verdict.shown)
    while True:
        lines = _Lines(width, styled)
        lines.verdict(verdict, shown)
        fits = height is None or len(lines.lines) <= height
        if fits or shown[-1:] == [] or shown[-1].status != "pass":
            return "\n".join(lines.lines) + "\n"
        shown.pop()


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
            wrapped = self._wrapped(text)
            on = style and self.styled
            self.lines += [f"{style}{line}{PLAIN}" if on else line for line in wrapped]
        self.lines += [""] if end else []

    def _wrapped(self, text: str, first: str = "", later: str = "") -> list[str]:
        """Lines of a text; a number and its per cent stay together."""
        joined = printable(text).replace(" %", JOIN)
        wrapper = textwrap.TextWrapper(
            self.width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
        )
        lines = wrapper.wrap(joined)
        return [line.replace(JOIN, " %") for line in lines]

    def verdict(self, verdict: Verdict, shown: Sequence[Finding]) -> None:
        """The paragraph, the findings that are shown, and what could not be run."""
        self.said(verdict.words, BOLD)
        for one in shown:
            self.labeled(one.status, _finding(one), strong=one.status != "pass")
        more = len(verdict.findings) - len(shown)
        if more:
            self.labeled("", f"and {more} more: see the page, audit.json or --full")
        reasons = list(verdict.not_run.items())
        for name, why in reasons[:REASONS]:
            room = self.width - INDENT if self.width >= NARROW else 2 * self.width
            self.labeled("not run", textwrap.shorten(f"{name}: {why}", room, placeholder=" ..."))
        if reasons[REASONS:]:
            rest = ", ".join(name for name, _ in reasons[REASONS:])
            self.labeled("", f"nor {rest}: see the page")

    def labeled(self, label: str, text: str, *, strong: bool = False) -> None:
        """A text beside its label, or below it on a narrow screen."""
        indent = INDENT if self.width >= NARROW else 2
        start = f"{label:<{indent}}" if self.width >= NARROW else f"{label}: " if label else "  "
        wrapped = self._wrapped(text, start, " " * indent)
        if strong and self.styled:
            wrapped[0] = f"{BOLD}{wrapped[0][: len(label)]}{PLAIN}{wrapped[0][len(label) :]}"
        self.lines += wrapped

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


def _finding(one: Finding) -> str:
    """A finding in one sentence, with what to do where its limit is broken."""
    note = f" ({one.note})" if one.note else ""
    start = f"{one.heading}: {number_of(one)}{note}, {'required ' if one.required else ''}"
    if one.status == "pass":
        return f"{start}{limit_of(replace(one, fail=None) if one.attention is not None else one)}."
    said = f"{start}{'' if one.required else 'limit '}{limit_of(one)}"
    return f"{said}: the data do not tell." if one.unclear else f"{said}. {one.advice}"
