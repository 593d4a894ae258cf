"""What the page shows, in its order: the verdict, findings, sections, figures."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nescio.evaluation import Finding, Findings, RegressionFindings, Status, Verdict, verdict_of
from nescio.report.audit_report import Report, report_of
from nescio.report.audit_section import Pictures, Section
from nescio.report.explorer import explorer_of
from nescio.report.figures import with_figures
from nescio.report.finding_scale import finding_scale
from nescio.report.page_figures import ShownFigure, shown_figure
from nescio.report.verdict_words import advice_of, in_unit, limit_of, number_of

STATUSES: tuple[Status, ...] = ("fail", "attention", "pass")  # the worst first
ORDER = (  # of sections on the page; others follow in theirs
    *("accuracy", "targets", "groups", "slices", "cases", "label errors", "duplicates"),
    *("calibration", "intervals", "failure", "guard", "thresholds", "shift budget", "planner"),
    *(
        "remedies",
        "interval remedies",
        "confidence",
        "ood",
        "attack",
        "scaled inputs",
        "far field",
        "shift",
    ),
    *("stability", "influence"),
)
NOT_RUN = "not run"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How much a page shows: rows of a table, pictures, figures."""

    rows: int
    pictures: int
    figures: int = 1000


@dataclass(frozen=True, kw_only=True)
class Line:
    """A finding as the page writes it."""

    status: str
    title: str
    number: str
    ends: str  # of its interval
    rest: str  # samples and a note
    limit: str
    required: bool
    meaning: str
    advice: Sequence[tuple[str, bool]]
    scale: Any
    section: str  # its title
    anchor: str


@dataclass(frozen=True, kw_only=True)
class PagePart:
    """A section with its place, its verdict and its figures."""

    anchor: str
    title: str
    status: str  # the worst of its findings; empty: none has a limit
    broken: Sequence[Line]  # its findings that do not pass
    kept: str  # the numbers that do
    section: Section
    figures: Sequence[ShownFigure]
    pictures: Sequence[Pictures]


def content_of(found: Findings | RegressionFindings, cut: Cut) -> dict[str, Any]:
    """Everything that the templates read."""
    from markupsafe import Markup

    report, verdict = report_of(found), verdict_of(found)
    sections = _sections(found, report, verdict)
    titles = {one.name: one.title for one in sections}
    lines = {one: _line(one, titles) for one in verdict.findings}
    parts = _parts(sections, lines, cut)
    first, *others = found.predictors
    classes: set[int] = set()
    if isinstance(found, Findings):
        classes = {one.classes for one in found.predictors.values()}
    thresholds = found.sections.get("thresholds")
    intervals = isinstance(found, RegressionFindings)
    explorer = None if thresholds is None else explorer_of(thresholds, intervals=intervals)
    return {
        "found": found,
        "report": report,
        "verdict": verdict,
        "words": _sentence(verdict),
        "first": first,
        "others": len(others),
        "counts": _counts(verdict),
        "findings": [lines[one] for one in verdict.shown],
        "more_findings": [line for one, line in lines.items() if one not in verdict.shown],
        "sentences": _named(found.predictors, report.verdict),
        "advice": [with_code(sentence) for sentence in report.advice],
        "parts": parts,
        "explorer": explorer
        if explorer is None
        else replace(explorer, chart=Markup(explorer.chart)),
        "sets": [one for one in found.sets if one.kind != "far"],
        "classes": sorted(classes),  # none: a regression
        "command": shlex.join(found.command) if found.command else None,
        "cut": _cut_words(sections, cut),
    }


def anchor_of(name: str) -> str:
    """Of a section's name, as the end of an address: letters, digits and hyphens."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()) or "section"


def _sections(
    found: Findings | RegressionFindings, report: Report, verdict: Verdict
) -> list[Section]:
    """Those of the report with their figures; at the end what was not run."""
    own = [one for one in report.sections if one.name != NOT_RUN]
    note = "These parts say nothing about the network, neither good nor bad."
    left = _left_out(verdict.not_run)
    end = [Section(name=NOT_RUN, title="What was not run", note=note, remarks=left)] if left else []
    return [*sorted(with_figures(found, own, report.plots), key=_place), *end]


def _left_out(not_run: Mapping[str, str]) -> list[tuple[str, str]]:
    """Parts with the reason; those with the same one together."""
    parts: dict[str, list[str]] = {}
    for name, why in not_run.items():
        parts.setdefault(why, []).append(name)
    return [(", ".join(names), why) for why, names in parts.items()]


def _place(one: Section) -> int:
    return ORDER.index(one.name) if one.name in ORDER else len(ORDER)


def _parts(sections: Sequence[Section], lines: Mapping[Finding, Line], cut: Cut) -> list[PagePart]:
    parts, room, drawn = [], cut.pictures, cut.figures
    for one in sections:
        name = one.name
        held = [line for finding, line in lines.items() if finding.section == name]
        statuses = [line.status for line in held]
        figures = [shown_figure(drawing) for drawing in one.drawings[: max(0, drawn)]]
        drawn -= len(one.drawings)
        pictures = []
        for strip in one.pictures:
            pictures += [replace(strip, items=strip.items[: max(0, room)])] if room > 0 else []
            room -= len(strip.items)
        parts.append(
            PagePart(
                anchor=anchor_of(one.name or one.title),
                title=one.title,
                status=next((s for s in STATUSES if s in statuses), ""),
                broken=[line for line in held if line.status != "pass"],
                kept=_kept([one for one in lines if one.section == name and one.status == "pass"]),
                section=one,
                figures=[_marked(figure) for figure in figures],
                pictures=pictures,
            )
        )
    return parts


def _kept(findings: Sequence[Finding]) -> str:
    """The numbers that keep their limits; those of several sets together."""
    said: dict[str, list[str]] = {}
    for one in findings:
        number = "" if one.value is None else in_unit(one.value, one.unit)
        said.setdefault(one.title, []).append(f"{one.data} {number}" if one.data else number)
    return "; ".join(f"{title}: {', '.join(numbers)}" for title, numbers in said.items())


def _marked(figure: ShownFigure) -> ShownFigure:
    from markupsafe import Markup

    return replace(figure, svg=Markup(figure.svg))


def _cut_words(sections: Sequence[Section], cut: Cut) -> str:
    """What the page leaves out so that it stays small."""
    figures = sum(len(one.drawings) for one in sections) - cut.figures
    pictures = sum(len(strip.items) for one in sections for strip in one.pictures) - cut.pictures
    said = [f"{n} {what}" for n, what in ((figures, "figures"), (pictures, "pictures")) if n > 0]
    return f"Left out, so that the page stays small: {' and '.join(said)}." if said else ""


def _line(one: Finding, titles: Mapping[str, str]) -> Line:
    from markupsafe import Markup

    number = "not measured" if one.value is None else in_unit(one.value, one.unit)
    ends = number_of(one).removeprefix(number).strip(" ()")
    samples = [] if one.samples is None else [f"{one.samples:,} sample{'s' * (one.samples != 1)}"]
    known_section = one.section in titles
    return Line(
        status=one.status,
        title=_titled(one),
        number=number,
        ends=f"({ends})" if ends else "",
        rest=", ".join([*samples, *([one.note] if one.note else [])]),
        limit=limit_of(one),
        required=one.required is not None,
        meaning=one.meaning,
        advice=with_code(said) if (said := advice_of(one)) else (),
        scale=Markup(finding_scale(one)),
        section=titles.get(one.section, ""),
        anchor=anchor_of(one.section) if known_section else "",
    )


def _titled(one: Finding) -> str:
    title = one.title[:1].upper() + one.title[1:]
    return title if one.data is None else f"{title}: {one.data}"


def _counts(verdict: Verdict) -> list[tuple[str, int]]:
    counted = [(status, len(verdict.of(status))) for status in STATUSES]
    return [(status, count) for status, count in counted if count]


def _sentence(verdict: Verdict) -> str:
    """The paragraph, without the word of the status, which is its title."""
    start, colon, rest = verdict.words.partition(": ")
    if colon and start.lower() == verdict.status:
        return rest[:1].upper() + rest[1:]
    return verdict.words


def _named(names: Any, sentences: Sequence[str]) -> list[tuple[str, str]]:
    pairs = zip(names, sentences, strict=True)
    return [(name, text.removeprefix(f"{name}:").strip()) for name, text in pairs]


def with_code(sentence: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and which of them stood between backticks."""
    return [(part, bool(k % 2)) for k, part in enumerate(sentence.split("`"))]
