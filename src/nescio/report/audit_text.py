"""An audit for the terminal: the verdict and its findings on one screen, or with the tables."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
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
HEIGHT = 19  # lines of the verdict on a screen of 24, which also shows the files and a prompt
NARROW = 60  # columns of a screen where statuses have no column
REASONS = 3  # why sections were not run, on one screen


def audit_text(
    found: Findings | RegressionFindings, *, width: int | None = None, styled: bool | None = None
) -> str:
    """The audit as text, for a terminal.

    found: findings of an audit.
    width: number of columns; None: those of the terminal, at most 100.
    styled: whether to use colors and bold type; None: where standard output is a terminal.
    """
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
    """The verdict and its findings: one screen of a terminal.

    verdict: verdict of an audit.
    width: number of columns; None: those of the terminal, at most 80.
    height: number of lines; where there are more, findings that passed are left out, then the
      advice of the others from the last on. None: no limit.
    styled: whether to use colors and bold type; None: where standard output is a terminal.
    """
    styled = is_terminal(sys.stdout) if styled is None else styled
    width = min(80, screen_width()) if width is None else width
    broken = [one for one in verdict.shown if one.status != "pass"]
    tried = [(count, len(broken)) for count in range(len(verdict.shown), len(broken), -1)]
    tried += [(len(broken), advised) for advised in range(len(broken), -1, -1)]
    for count, advised in tried:
        lines = _Lines(width, styled)
        lines.verdict(verdict, verdict.shown[:count], advised=advised)
        if height is None or len(lines.lines) <= height:
            break
    return "\n".join(lines.lines) + "\n"


def command_text(label: str, command: str, *, width: int | None = None) -> str:
    """A command behind its label, continued by backslashes on a screen that it does not fit.

    label: words before the command.
    command: the command.
    width: number of columns; None: those of the terminal, at most 80.
    """
    room = (min(80, screen_width()) if width is None else width) - len(label) - 4
    lines = [""]
    for word in printable(command).split(" "):
        part = f"{lines[-1]} {word}".lstrip()
        if len(part) <= room or not lines[-1]:
            lines[-1] = part
        elif word.startswith("--") or " --" not in f" {lines[-1]}":
            lines.append(word)
        else:  # an option stays with its value
            lines[-1], _, option = lines[-1].rpartition(" ")
            lines.append(f"{option} {word}")
    return f"{label}: " + f" \\\n{' ' * (len(label) + 2)}".join(lines)


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

    def verdict(
        self, verdict: Verdict, shown: Sequence[Finding], *, advised: int | None = None
    ) -> None:
        """The paragraph, the findings that are shown, and what could not be run.

        advised: how many of the findings, from the first on, say what to do; None: all.
        """
        self.said(verdict.words, BOLD)
        given = set[str]()  # the same advice is given once
        for count, one in enumerate(shown):
            advice = (advised is None or count < advised) and one.advice not in given
            given |= {one.advice} if one.status != "pass" and not one.unclear else set()
            self.labeled(one.status, _finding(one, advice=advice), strong=one.status != "pass")
        rest = verdict.findings[len(shown) :]
        if rest:
            passed = " pass" if all(one.status == "pass" for one in rest) else ""
            self.labeled("", f"{'and ' * bool(shown)}{len(rest)} more{passed}: see the page")
        self._not_run(verdict.not_run)

    def _not_run(self, not_run: Mapping[str, str]) -> None:
        """What was not run, a line or two for each reason."""
        by_reason: dict[str, list[str]] = {}
        for name, why in not_run.items():
            by_reason.setdefault(why, []).append(name)
        reasons = [(", ".join(names), why) for why, names in by_reason.items()]
        for names, why in reasons[:REASONS]:
            room = self.width - INDENT if self.width >= NARROW else 2 * self.width
            self.labeled("not run", f"{names}: {_fitting(why, max(40, room - len(names) - 2))}")
        if reasons[REASONS:]:
            rest = ", ".join(names for names, _ in reasons[REASONS:])
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


def _fitting(text: str, room: int) -> str:
    """As much of a text as there is room for: whole clauses, or whole words."""
    text = " ".join(text.split())
    if len(text) <= room:
        return text
    ends = [text.rfind(mark, 0, room + 1) for mark in ("; ", ", ", " (")]
    if max(ends) > room // 3:
        return text[: max(ends)]
    return textwrap.shorten(text, room, placeholder=" ...")


def _finding(one: Finding, *, advice: bool = True) -> str:
    """A finding in one sentence, with what to do where its limit is broken."""
    note = f" ({one.note})" if one.note else ""
    start = f"{one.heading}: {number_of(one)}{note}, {'required ' if one.required else ''}"
    first = replace(one, fail=None) if one.attention is not None else one
    if one.status == "pass":
        return f"{start}{limit_of(first)}."
    said = f"{start}{'' if one.required else 'limit '}{limit_of(one if advice else first)}"
    if one.unclear:
        return f"{said}: the data do not tell{'; give more samples' * advice}."
    return f"{said}. {one.advice}" if advice else f"{said}."
