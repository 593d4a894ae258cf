"""The verdict of an audit: pass, attention or fail, and the findings that it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nescio.core import to_json
from nescio.evaluation.audit import default_limits  # noqa: F401 (its limits are registered)
from nescio.evaluation.audit.audit_limits import (
    STATUSES,
    Finding,
    Measured,
    Status,
    finding_of,
    limits,
    numbers_of,
)
from nescio.evaluation.audit.findings import AuditFindings, Findings
from nescio.evaluation.audit.requirements import Requirement, requirement
from nescio.evaluation.regression import regression_limits  # noqa: F401
from nescio.evaluation.regression.regression_findings import RegressionFindings
from nescio.spelling import did_you_mean

FORMAT, FORMAT_VERSION = "nescio audit", 1  # of audit.json
EXPECTED = 20  # ranks of findings that tell little where they pass
SHOWN = 7  # findings on a screen
EXIT_CODES: Mapping[Status, int] = {"pass": 0, "attention": 2, "fail": 3}  # 1 is an error


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an audit says first: a status, a paragraph, findings, and what could not be run.

    status: `"pass"`, `"attention"` or `"fail"`: that of the worst finding.
    words: the paragraph.
    findings: every number that has a limit, the worst first.
    not_run: reasons why a section is missing, by its name.
    """

    status: Status
    words: str
    findings: tuple[Finding, ...]
    not_run: Mapping[str, str]

    @property
    def shown(self) -> tuple[Finding, ...]:
        """At most seven findings: those that fail, then attention, and a passed one per number."""
        seen: set[str] = set()
        first: list[Finding] = []
        others: list[Finding] = []
        for one in self.findings:
            (others if one.name in seen else first).append(one)
            seen.add(one.name)
        chosen = [*first, *(one for one in others if one.status != "pass")]
        return tuple(sorted(chosen, key=lambda one: STATUSES.index(one.status))[:SHOWN])

    @property
    def exit_code(self) -> int:
        """The exit code of the command `nescio audit`: 0 pass, 2 attention, 3 fail."""
        return EXIT_CODES[self.status]

    def of(self, status: Status) -> list[Finding]:
        """The findings of one `status`."""
        return [one for one in self.findings if one.status == status]

    def __str__(self) -> str:
        return self.words


def verdict_of(found: Findings | RegressionFindings) -> Verdict:
    """The verdict about findings, against the default limits and those that were required.

    found: the findings of an audit.
    """
    from nescio.report import verdict_paragraph

    judged = judge(found)
    status: Status = judged[0].status if judged else "attention"  # the worst comes first
    not_run = reasons(found)
    words = verdict_paragraph(found, status, judged, not_run)
    return Verdict(status=status, words=words, findings=judged, not_run=not_run)


def judged_json(verdict: Verdict) -> dict[str, Any]:
    """What `audit.json` says of the verdict."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "status": verdict.status,
        "verdict": verdict.words,
        "findings": [to_json(one) for one in verdict.findings],
        "not_run": dict(verdict.not_run),
    }


def judge(found: Findings | RegressionFindings) -> tuple[Finding, ...]:
    """Every number that has a limit, compared with it; the worst first."""
    if not found.predictors:
        return ()
    wanted = [requirement(text) for text in found.required]
    task = "regression" if isinstance(found, RegressionFindings) else "classification"
    judged: list[Finding] = []
    met: set[int] = set()
    for one in limits.values():
        if task not in one.tasks:
            continue
        own = [asked for asked in wanted if asked.limit.name == one.name]
        for data, measured in numbers_of(one, found):
            asked = _about(own, data, found)
            met |= {id(part) for part in asked}
            held = [part.limit for part in asked] or ([one] if one.counts else [])
            judged += [finding_of(part, measured, data) for part in held]
    missing = [asked for asked in wanted if id(asked) not in met]
    judged += [_not_measured(asked, found, task) for asked in missing]
    return tuple(sorted(judged, key=_order))


def _order(one: Finding) -> tuple[Any, ...]:
    """The worst first, required ones before others; what hardly ever fails last where it passes."""
    distance = 0.0 if one.value is None else one.value * (-1 if one.better == "lower" else 1)
    expected = one.status == "pass" and one.rank < EXPECTED
    status = STATUSES.index(one.status)
    return status, one.required is None, expected, one.rank, distance, one.label


def _about(own: Sequence[Requirement], data: str | None, found: AuditFindings) -> list[Requirement]:
    """The requirements about a set: those that name it, else its kind, else all sets."""
    if data is None:
        return [one for one in own if one.data is None]
    for named in (data, found.kind(data), None):
        if about := [one for one in own if one.data == named]:
            return about
    return []


def _not_measured(asked: Requirement, found: AuditFindings, task: str) -> Finding:
    """A requirement whose number is not among the findings: the data do not tell."""
    one = asked.limit
    names = [data for data, _ in numbers_of(one, found) if data] if task in one.tasks else []
    note = "not measured in this audit"
    if task not in one.tasks:
        note = f"not a number of a {task}"
    elif asked.data is not None and names:
        note = f"there is no {asked.data!r}{did_you_mean(asked.data, names).rstrip('?.')}"
    return finding_of(one, Measured(value=None, note=note), asked.data)


def reasons(found: Findings | RegressionFindings) -> dict[str, str]:
    """What could not be run, and why, by section; what the audit tried comes first."""
    tried = dict(_tried(found))
    others = {name: why for name, why in found.not_run.items() if name not in tried}
    return {**tried, **others}


def _tried(found: Any) -> Iterator[tuple[str, str]]:
    if found.guard is not None and found.guard.skipped:
        yield "guard", found.guard.skipped
    if found.no_shift:
        yield "shift", found.no_shift
    first = next(iter(found.predictors.values()), None)
    for name in ("calibration", "failure", "attack", "far_field"):
        part = getattr(first, name, None)
        if part is not None and part.skipped:
            yield name.replace("_", " "), part.skipped
