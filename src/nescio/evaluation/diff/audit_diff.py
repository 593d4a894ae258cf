"""What changed between two audits: numbers of the first predictors, with a test for each.

On samples that both audits store, tests are paired. Where the data differ, samples are taken as
separate, and it is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nescio.core import NescioError, check_level, unknown
from nescio.evaluation.audit.findings import Findings
from nescio.evaluation.audit.stored_answers import StoredAnswers
from nescio.evaluation.diff.changes import Change, judged, of_ood, of_test
from nescio.evaluation.diff.sides import Sides, sides_of
from nescio.evaluation.regression.regression_findings import RegressionFindings

AnyFindings: TypeAlias = Findings | RegressionFindings
SECTION = "answers"


@dataclass(frozen=True, kw_only=True)
class AuditDiff:
    """Two audits side by side: what changed, by how much, and whether by more than chance.

    before, after: names of the two audits.
    level: confidence level of the intervals.
    changes: the numbers before and after.
    pairing: which samples were compared, in words.
    verdicts: verdicts of the two audits.
    statuses: findings whose status changed: the status before and after.
    untested: what could not be compared, and why.
    """

    before: str
    after: str
    level: float
    changes: tuple[Change, ...]
    pairing: tuple[str, ...]
    verdicts: tuple[str, str]
    statuses: Mapping[str, tuple[str, str]]
    untested: tuple[str, ...]

    @property
    def worse(self) -> tuple[Change, ...]:
        """The numbers that got worse by more than chance."""
        return tuple(one for one in self.changes if one.word == "worse")

    @property
    def improved(self) -> tuple[Change, ...]:
        """The numbers that got better by more than chance."""
        return tuple(one for one in self.changes if one.word == "better")

    @property
    def exit_code(self) -> int:
        """The exit code of the command `nescio diff`: 3 if a number got worse, otherwise 0."""
        return 3 if self.worse else 0

    def __str__(self) -> str:
        from nescio.report import diff_text

        return diff_text(self)

    def markdown(self) -> str:
        """The verdict and the table in Markdown."""
        from nescio.report import diff_markdown

        return diff_markdown(self)

    def html(self) -> str:
        """One self-contained page."""
        from nescio.report import diff_page

        return diff_page(self)


def diff(
    before: AnyFindings,
    after: AnyFindings,
    *,
    only: Sequence[str] = (),
    level: float = 0.95,
    names: Sequence[str] = (),
) -> AuditDiff:
    """What changed from one audit to another, with paired intervals and tests where that can be.

    before, after: findings of the two audits.
    only: names of numbers to compare, such as `"accuracy"` or `"abstained[letters]"`; by default
      all.
    level: confidence level of the intervals; 1 - level bounds the chance that any number is falsely
      called worse or better (Holm's correction).
    names: names of the two audits, for words.
    """
    from nescio.evaluation.audit.verdict import verdict_of

    check_level(level)
    stored = [_stored(one, which) for one, which in ((before, "first"), (after, "second"))]
    if type(before) is not type(after):
        raise NescioError(
            "one audit is about classes, the other about numbers; compare two of one kind"
        )
    test = sides_of(*(one.test for one in stored))
    changes, untested = [*of_test(test, level)], []
    ood, missing = of_ood(stored, test, level)
    changes = _chosen([*changes, *ood], only)
    untested += missing
    verdicts = [verdict_of(one) for one in (before, after)]
    found = [{one.label: one.status for one in verdict.findings} for verdict in verdicts]
    both = [label for label in found[0] if found[0][label] != found[1].get(label, found[0][label])]
    first, second = names or ("the first audit", "the second audit")
    return AuditDiff(
        before=first,
        after=second,
        level=level,
        changes=judged(changes, level),
        pairing=_pairing(test, stored),
        verdicts=(verdicts[0].status, verdicts[1].status),
        statuses={label: (found[0][label], found[1][label]) for label in both},
        untested=tuple(untested),
    )


def _chosen(changes: Sequence[Change], only: Sequence[str]) -> list[Change]:
    """The numbers that were asked for, by name or with their data set; all without a wish."""
    known = list(dict.fromkeys(name for one in changes for name in (one.name, one.label)))
    for name in only:
        if name not in known:
            raise NescioError(unknown("number of both audits", name, known))
    return [one for one in changes if not only or {one.name, one.label} & set(only)]


def _stored(found: AnyFindings, which: str) -> StoredAnswers:
    answers = found.sections.get(SECTION)
    if answers is None:
        why = found.not_run.get(SECTION, "it was made by an older nescio")
        raise NescioError(
            f"the {which} audit stores no answers to single samples ({why}), so nothing can be "
            "compared; audit again without --skip answers"
        )
    assert isinstance(answers, StoredAnswers)
    return answers


def _pairing(test: Sides, stored: Sequence[StoredAnswers]) -> tuple[str, ...]:
    sizes = [one.test.samples for one in stored]
    totals = [one.test.total for one in stored]
    drawn = [
        f"the {which} audit stores {size:,} of its {total:,} test samples"
        for which, size, total in zip(("first", "second"), sizes, totals, strict=True)
        if size < total
    ]
    common = len(test.before["keys"])
    if not test.paired:
        said = (
            "The audits have different test data, so the samples are taken as separate: what "
            "changed may be the network, the data or both."
        )
        return (said, *(f"{text[0].upper()}{text[1:]}." for text in drawn))
    said = (
        f"{common:,} test samples, the same input and label, are in both audits: they are paired."
    )
    left = [
        f"{size - common:,} of the {which} audit are left out"
        for which, size in zip(("first", "second"), sizes, strict=True)
        if size > common
    ]
    return (said, *(f"{text[0].upper()}{text[1:]}." for text in (*left, *drawn)))
