"""Numbers of two audits with a test for each: shares, means, resampled metrics, AUROC."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio import metrics
from nescio.evaluation.audit.stored_answers import StoredAnswers
from nescio.evaluation.diff.sides import Columns, Sides, sides_of
from nescio.metrics import Difference

Word: TypeAlias = Literal["worse", "better", "no difference shown"]
ERRORS = 10  # of each network, below which their order is chance
ANSWERED, UNDECIDED = ord("a"), ord("-")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One number before and after, on the samples that were compared.

    name: name of the number.
    data: name of the OOD set; None: the test data.
    better: whether `"lower"` or `"higher"` numbers are better.
    before, after: the two numbers.
    low, high: the interval of `after - before`.
    p: p-value of no change.
    adjusted: p corrected for the number of tests (Holm, 1979), by which the word is chosen.
    samples: number of samples before and after.
    paired: whether both are of the same samples.
    test: name of the test.
    word: `"better"`, `"worse"` or `"no difference shown"`.
    """

    name: str
    data: str | None
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
        """The number after less that before."""
        return self.after - self.before

    @property
    def label(self) -> str:
        """The name with the data set."""
        return self.name if self.data is None else f"{self.name}[{self.data}]"


def of_test(test: Sides, level: float) -> Iterator[Change]:
    """The numbers of the test data."""
    if test.has("wrong"):
        yield _share("accuracy", "higher", test, lambda side: ~side["wrong"], level)
    if test.has("nll") and all(np.isfinite(side).all() for side in test.get(lambda s: s["nll"])):
        yield _mean("NLL", test, "nll", level)
    if test.has("squared_error"):
        yield _mean("squared error", test, "squared_error", level)
    if test.has("wrong", "log_odds"):
        yield _resampled("ECE", test, _confidence, metrics.ece, level)
        if min(int(side.sum()) for side in test.get(lambda side: side["wrong"])) >= ERRORS:
            yield _resampled("AURC", test, _failures, _aurc, level)
    if test.has("decision"):
        yield from _of_guard(test.where(lambda side: side["decision"] != UNDECIDED), level)


def _of_guard(decided: Sides, level: float) -> Iterator[Change]:
    """How much the guard answers, and how much of it wrongly, as shares of all inputs."""
    if not min(len(side) for side in decided.get(lambda side: side["keys"])):
        return
    yield _share("coverage", "higher", decided, _answered, level)
    for column in ("wrong", "missed"):
        if decided.has(column):
            read = partial(_answered_and, column)
            yield _share(f"{column} answers", "lower", decided, read, level)


def _answered_and(column: str, side: Columns) -> NDArray[np.bool_]:
    return np.asarray(_answered(side) & side[column])


def _answered(side: Columns) -> NDArray[np.bool_]:
    return np.asarray(side["decision"] == ANSWERED)


def _confidence(side: Columns) -> tuple[Any, Any]:
    return np.exp(-np.logaddexp(0, side["log_odds"])), ~side["wrong"]


def _failures(side: Columns) -> tuple[Any, Any]:
    return side["log_odds"], side["wrong"]


def _aurc(score: Any, wrong: Any) -> float:
    """The AURC, also of a resample without an error."""
    return metrics.aurc(score, wrong) if wrong.any() and not wrong.all() else float(wrong.all())


def _share(name: str, better: Any, sides: Sides, read: Any, level: float) -> Change:
    before, after = sides.get(read)
    test = metrics.paired_share_test if sides.paired else metrics.separate_share_test
    words = "McNemar's exact test" if sides.paired else "Fisher's exact test"
    return _change(name, better, sides, (before, after), test(after, before, level=level), words)


def _mean(name: str, sides: Sides, column: str, level: float) -> Change:
    before, after = sides.get(lambda side: side[column])
    test = metrics.t_test if sides.paired else metrics.separate_mean_test
    words = "Student's paired test" if sides.paired else "Welch's test"
    return _change(name, "lower", sides, (before, after), test(after, before, level=level), words)


def _resampled(name: str, sides: Sides, read: Any, metric: Any, level: float) -> Change:
    before, after = sides.get(read)
    test: Any = metrics.metric_test if sides.paired else metrics.separate_metric_test
    found = test(metric, after, before, level=level)
    values = [np.array([metric(*one)]) for one in (before, after)]
    words = "paired bootstrap" if sides.paired else "bootstrap"
    return _change(name, "lower", sides, values, found, words)


def _change(
    name: str,
    better: Any,
    sides: Sides,
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


def of_ood(
    stored: Sequence[StoredAnswers], test: Sides, level: float
) -> tuple[list[Change], list[str]]:
    """AUROC and abstentions of the OOD sets in both audits; which sets are in one of them only."""
    changes: list[Change] = []
    one, two = (answers.ood for answers in stored)
    for name in one:
        if name not in two:
            continue
        sides = sides_of(one[name], two[name])
        if sides.has("log_odds") and test.has("log_odds"):
            changes.append(_auroc(name, test, sides, level))
        if sides.has("decision"):
            refused = _share("abstained", "higher", sides, lambda s: ~_answered(s), level)
            changes.append(replace(refused, data=name))
    alone = [(name, "first") for name in one if name not in two]
    alone += [(name, "second") for name in two if name not in one]
    return changes, [f"OOD set {name!r}: it is only in the {which} audit" for name, which in alone]


def _auroc(name: str, test: Sides, ood: Sides, level: float) -> Change:
    """AUROC of the log-odds, by DeLong's covariance of both audits, or of each alone."""
    pairs = [
        (one["log_odds"], two["log_odds"])
        for one, two in ((test.after, ood.after), (test.before, ood.before))
    ]
    paired = test.paired and ood.paired
    if paired:
        areas, covariance = metrics.delong_covariance(pairs)
    else:
        alone = [metrics.delong_covariance([pair]) for pair in pairs]
        areas = np.array([area[0] for area, _ in alone])
        covariance = np.diag([spread[0, 0] for _, spread in alone])
    found = metrics.normal_difference(areas, covariance, 0, 1, level)
    values = [areas[1:], areas[:1]]
    sides = replace(ood, paired=paired)
    words = "DeLong's paired test" if paired else "DeLong's test, separate samples"
    return _change("AUROC", "higher", sides, values, found, words, name)


def judged(changes: Sequence[Change], level: float) -> tuple[Change, ...]:
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
