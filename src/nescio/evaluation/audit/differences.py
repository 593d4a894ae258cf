"""What changed between two audits: numbers of the first predictors, with a test for each.

On samples that both audits store, tests are paired. Where the data differ, samples are taken as
separate, and it is said.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio import metrics
from nescio.core import NescioError, check_level
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.stored_answers import StoredAnswers, StoredSet
from nescio.metrics import Difference
from nescio.metrics.paired import delong_covariance, normal_difference

Columns: TypeAlias = dict[str, NDArray[Any]]
Word: TypeAlias = Literal["worse", "better", "no difference shown"]
ENOUGH = 0.5  # share of the samples of the smaller audit that must be in both for paired tests
ANSWERED, UNDECIDED = ord("a"), ord("-")
SECTION = "answers"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One number before and after, on the samples that were compared.

    low, high: the interval of `after - before`. adjusted: p corrected for the number of tests
    (Holm, 1979), by which the word is chosen.
    """

    name: str
    data: str | None  # the OOD set
    better: Literal["lower", "higher"]
    before: float
    after: float
    low: float
    high: float
    p: float
    adjusted: float
    samples: tuple[int, int]
    paired: bool
    test: str
    word: Word

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before

    @property
    def label(self) -> str:
        """The name with the data set."""
        return self.name if self.data is None else f"{self.name}[{self.data}]"


@dataclass(frozen=True, kw_only=True)
class AuditDiff:
    """Two audits side by side; statuses: findings whose status changed, before and after."""

    before: str
    after: str
    level: float
    changes: tuple[Change, ...]
    pairing: tuple[str, ...]  # which samples were compared, in words
    verdicts: tuple[str, str]
    statuses: Mapping[str, tuple[str, str]]
    untested: tuple[str, ...]  # what could not be compared, and why

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
        """Of the command `nescio diff`: 3 if a number got worse, otherwise 0."""
        return 3 if self.worse else 0

    def __str__(self) -> str:
        from nescio.report.diff_words import diff_text

        return diff_text(self)

    def markdown(self) -> str:
        """The verdict and the table in Markdown."""
        from nescio.report.diff_words import diff_markdown

        return diff_markdown(self)

    def html(self) -> str:
        """One self-contained page."""
        from nescio.report.diff_page import diff_page

        return diff_page(self)


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Columns of the samples to compare, before and after; paired: row by row the same samples."""

    before: Columns
    after: Columns
    paired: bool

    def has(self, *names: str) -> bool:
        return all(name in side for name in names for side in (self.before, self.after))

    def get(self, read: Callable[[Columns], Any]) -> tuple[Any, Any]:
        return read(self.before), read(self.after)

    def where(self, read: Callable[[Columns], NDArray[np.bool_]]) -> "_Sides":
        """The samples that satisfy a condition, of pairs in both; as pairs if these are enough."""
        one, two = self.get(read)
        if self.paired and (one & two).sum() >= ENOUGH * min(one.sum(), two.sum()):
            one = two = one & two
            return replace(self, before=_rows(self.before, one), after=_rows(self.after, two))
        return _Sides(before=_rows(self.before, one), after=_rows(self.after, two), paired=False)


def diff(
    before: AuditFindings, after: AuditFindings, *, level: float = 0.95, names: Sequence[str] = ()
) -> AuditDiff:
    """What changed from one audit to another, with paired intervals and tests where that can be.

    level: of the intervals; 1 - level bounds the chance that any number is falsely called worse or
    better (Holm's correction). names: of the two audits, for words.
    """
    from nescio.evaluation.audit.verdict import verdict_of

    check_level(level)
    stored = [_stored(one, which) for one, which in ((before, "first"), (after, "second"))]
    if before.task != after.task:
        raise NescioError(
            f"the first audit is about a {before.task}, the second about a {after.task}; compare "
            "two of one kind"
        )
    test = _sides(*(one.test for one in stored))
    changes, untested = [*_of_test(test, level)], []
    ood, missing = _of_ood(stored, test, level)
    changes += ood
    untested += missing
    verdicts = [verdict_of(one) for one in (before, after)]
    found = [{one.label: one.status for one in verdict.findings} for verdict in verdicts]
    both = [label for label in found[0] if found[0][label] != found[1].get(label, found[0][label])]
    first, second = names or ("the first audit", "the second audit")
    return AuditDiff(
        before=first,
        after=second,
        level=level,
        changes=_judged(changes, level),
        pairing=_pairing(test, stored),
        verdicts=(verdicts[0].status, verdicts[1].status),
        statuses={label: (found[0][label], found[1][label]) for label in both},
        untested=tuple(untested),
    )


def _stored(found: AuditFindings, which: str) -> StoredAnswers:
    answers = found.sections.get(SECTION)
    if answers is None:
        why = found.not_run.get(SECTION, "it was made by an older nescio")
        raise NescioError(
            f"the {which} audit stores no answers to single samples ({why}), so nothing can be "
            "compared; audit again without --skip answers"
        )
    assert isinstance(answers, StoredAnswers)
    return answers


def _rows(columns: Columns, chosen: Any) -> Columns:
    return {name: values[chosen] for name, values in columns.items()}


def _sides(before: StoredSet, after: StoredSet) -> _Sides:
    """The pairs where enough samples are in both audits; otherwise all samples of each."""
    one, two = before.columns(), after.columns()
    first, second = _common(one["keys"], two["keys"])
    if len(first) < max(2, ENOUGH * min(len(one["keys"]), len(two["keys"]))):
        return _Sides(before=one, after=two, paired=False)
    return _Sides(before=_rows(one, first), after=_rows(two, second), paired=True)


def _common(one: NDArray[np.uint64], two: NDArray[np.uint64]) -> tuple[Any, Any]:
    """Indices of the samples that are in both; of equal ones the first is the first of the other.

    Keys rise; samples of one key have the same input and label, so any order of them will do.
    """
    kinds = np.dtype([("key", np.uint64), ("nth", np.int64)])
    named = []
    for keys in (one, two):
        table = np.empty(len(keys), dtype=kinds)
        table["key"], table["nth"] = keys, np.arange(len(keys)) - np.searchsorted(keys, keys)
        named.append(table)
    _, first, second = np.intersect1d(*named, assume_unique=True, return_indices=True)
    return first, second


def _of_test(test: _Sides, level: float) -> Iterator[Change]:
    """The numbers of the test data."""
    if test.has("wrong"):
        yield _share("accuracy", "higher", test, lambda side: ~side["wrong"], level)
    if test.has("nll") and all(np.isfinite(side).all() for side in test.get(lambda s: s["nll"])):
        yield _mean("NLL", test, "nll", level)
    if test.has("squared_error"):
        yield _mean("squared error", test, "squared_error", level)
    if test.has("wrong", "log_odds"):
        yield _resampled("ECE", test, _confidence, metrics.ece, level)
        yield _resampled("AURC", test, _failures, metrics.aurc, level)
    if test.has("decision"):
        decided = test.where(lambda side: side["decision"] != UNDECIDED)
        yield _share("coverage", "higher", decided, _answered, level)
        if decided.has("wrong"):
            yield _share("wrong answers", "lower", decided, lambda s: _answered(s) & s["wrong"], level)
        if decided.has("missed"):
            yield _share("missed answers", "lower", decided, lambda s: _answered(s) & s["missed"], level)  # fmt: skip


def _answered(side: Columns) -> NDArray[np.bool_]:
    return np.asarray(side["decision"] == ANSWERED)


def _confidence(side: Columns) -> tuple[Any, Any]:
    return np.exp(-np.logaddexp(0, side["log_odds"])), ~side["wrong"]


def _failures(side: Columns) -> tuple[Any, Any]:
    return side["log_odds"], side["wrong"]


def _share(name: str, better: Any, sides: _Sides, read: Any, level: float) -> Change:
    before, after = sides.get(read)
    test = metrics.paired_share_test if sides.paired else metrics.separate_share_test
    words = "McNemar's exact test" if sides.paired else "Fisher's exact test"
    return _change(name, better, sides, (before, after), test(after, before, level=level), words)


def _mean(name: str, sides: _Sides, column: str, level: float) -> Change:
    before, after = sides.get(lambda side: side[column])
    test = metrics.t_test if sides.paired else metrics.separate_mean_test
    words = "Student's paired test" if sides.paired else "Welch's test"
    return _change(name, "lower", sides, (before, after), test(after, before, level=level), words)


def _resampled(name: str, sides: _Sides, read: Any, metric: Any, level: float) -> Change:
    before, after = sides.get(read)
    test: Any = metrics.metric_test if sides.paired else metrics.separate_metric_test
    found = test(metric, after, before, level=level)
    values = [np.array([metric(*one)]) for one in (before, after)]
    words = "paired bootstrap" if sides.paired else "bootstrap"
    return _change(name, "lower", sides, values, found, words)


def _change(
    name: str,
    better: Any,
    sides: _Sides,
    values: Sequence[Any],
    found: Difference,
    test: str,
    data: str | None = None,
) -> Change:
    """A number that is still to be judged; values: their means are the numbers."""
    sizes = [len(side["keys"]) for side in (sides.before, sides.after)]
    return Change(
        name=name,
        data=data,
        better=better,
        before=float(np.mean(values[0])),
        after=float(np.mean(values[1])),
        low=found.low,
        high=found.high,
        p=found.p,
        adjusted=found.p,
        samples=(sizes[0], sizes[1]),
        paired=sides.paired,
        test=test,
        word="no difference shown",
    )


def _of_ood(
    stored: Sequence[StoredAnswers], test: _Sides, level: float
) -> tuple[list[Change], list[str]]:
    """How well OOD sets are told apart, and how often the guard abstains; which of them are in one audit only."""
    changes: list[Change] = []
    one, two = (answers.ood for answers in stored)
    for name in one:
        if name not in two:
            continue
        sides = _sides(one[name], two[name])
        if sides.has("log_odds") and test.has("log_odds"):
            changes.append(_auroc(name, test, sides, level))
        if sides.has("decision"):
            refused = _share("abstained", "higher", sides, lambda s: ~_answered(s), level)
            changes.append(replace(refused, data=name))
    alone = [(name, "first") for name in one if name not in two]
    alone += [(name, "second") for name in two if name not in one]
    return changes, [f"OOD set {name!r}: it is only in the {which} audit" for name, which in alone]


def _auroc(name: str, test: _Sides, ood: _Sides, level: float) -> Change:
    """AUROC of the log-odds, by DeLong's covariance of both audits, or of each alone."""
    pairs = [
        (one["log_odds"], two["log_odds"])
        for one, two in ((test.after, ood.after), (test.before, ood.before))
    ]
    paired = test.paired and ood.paired
    if paired:
        areas, covariance = delong_covariance(pairs)
    else:
        alone = [delong_covariance([pair]) for pair in pairs]
        areas = np.array([area[0] for area, _ in alone])
        covariance = np.diag([spread[0, 0] for _, spread in alone])
    found = normal_difference(areas, covariance, 0, 1, level)
    values = [areas[1:], areas[:1]]
    sides = replace(ood, paired=paired)
    words = "DeLong's paired test" if paired else "DeLong's test, separate samples"
    return _change("AUROC", "higher", sides, values, found, words, name)


def _judged(changes: Sequence[Change], level: float) -> tuple[Change, ...]:
    """All numbers with their words; worse ones first, then by p."""
    if not changes:
        return ()
    adjusted = metrics.holm([one.p for one in changes]).tolist()
    judged = [
        replace(one, adjusted=p, word=_word(one, p, level))
        for one, p in zip(changes, adjusted, strict=True)
    ]
    order = ("worse", "better", "no difference shown")
    return tuple(sorted(judged, key=lambda one: order.index(one.word)))


def _word(change: Change, p: float, level: float) -> Word:
    if p > 1 - level or change.difference == 0:
        return "no difference shown"
    return "better" if (change.difference > 0) == (change.better == "higher") else "worse"


def _pairing(test: _Sides, stored: Sequence[StoredAnswers]) -> tuple[str, ...]:
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
    said = f"{common:,} test samples are in both audits (equal input and label) and are compared in pairs."
    left = [
        f"{size - common:,} of the {which} audit are left out"
        for which, size in zip(("first", "second"), sizes, strict=True)
        if size > common
    ]
    return (said, *(f"{text[0].upper()}{text[1:]}." for text in (*left, *drawn)))


