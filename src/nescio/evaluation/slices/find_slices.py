"""Slices: groups of samples, described by one or two conditions, where a network is worse.

One part of the samples is searched, the others test what was found. So the p-values are exact
whatever the search tried, and need a correction only for the number of slices that are tested.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.conformal import binomial_interval
from nescio.core import Floats, NescioError, Numbers, check_level, generator, numbers
from nescio.evaluation.slices.condition import Condition, Flags, read_columns
from nescio.evaluation.slices.slice_search import Excess, candidates, holding
from nescio.metrics import Interval, excess_test, holm, overconfidence_test

SEARCHED = 10_000  # samples at most; the others test
TESTED = 30  # slices at most
SMALLEST = 0.01  # of the samples that are searched
FEWEST = 15  # samples of a slice that are searched
ERRORS = 10  # in each part: with fewer, no slice could be told from chance
STRATA = 12  # of confidence, with equal sums of 1 - confidence
SECOND = 6.0  # what a second condition costs, in nats: about the logarithm of their number
AGAIN = 0.05  # p-value of a slice among the samples of none that is already reported
ROWS = 100  # of errors, by index


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Samples that meet all conditions; the numbers are of samples that were not searched.

    conditions: the conditions.
    samples: number of samples.
    errors: number of errors among them.
    error_rate: their share; the interval is exact, 95 % for all slices that were tested together.
    others: error rate of the other samples.
    p_wrong: p-value that errors are as frequent elsewhere, corrected for the number of tests.
    mean_confidence: mean confidence.
    alike: error rate expected from other samples of equal confidence.
    p_overconfident: p-value that errors are as frequent as the confidence allows, corrected as
      well.
    share: share of all samples, searched ones too, that meet the conditions.
    rows: indices of the errors in the slice, searched ones too; at most 100.
    """

    conditions: tuple[Condition, ...]
    samples: int
    errors: int
    error_rate: Interval
    others: float
    p_wrong: float
    mean_confidence: float | None = None
    alike: float | None = None
    p_overconfident: float | None = None
    share: float
    rows: tuple[int, ...]

    def holds(self, columns: Any) -> Flags:
        """Which samples of a table belong to the slice, `(N,)`.

        columns: a mapping of names to columns, a pandas frame, or an array `(N, D)`.
        """
        table = read_columns(columns)
        return holding(self.conditions, table)

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


@dataclass(frozen=True, kw_only=True)
class Slices:
    """The slices that were found and confirmed, the clearest first, and how they were found.

    found: the slices.
    event: what `wrong` means, in words.
    level: the chance of reporting any slice where there is none is at most this.
    samples: number of samples.
    errors: number of errors.
    conjunctions: number of conjunctions of conditions that were searched.
    tested: number of slices that were tested.
    columns: names of the columns.
    """

    found: tuple[Slice, ...]
    event: str = "wrong"
    level: float
    samples: int
    errors: int
    conjunctions: int
    tested: int
    columns: tuple[str, ...]

    def __iter__(self) -> Iterator[Slice]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def at(self, rows: NDArray[np.int64]) -> "Slices":
        """The same slices, where the samples are some rows of others: with the indices among those.

        rows: index of each sample among the others, `(N,)`.
        """
        moved = [replace(one, rows=tuple(rows[list(one.rows)].tolist())) for one in self.found]
        return replace(self, found=tuple(moved))

    def words(self, one: Slice) -> str:
        """A slice in a sentence.

        `age > 60 and predicted class = 3: 41 % wrong, others 9 %`

        one: the slice.
        """
        said = f"{one}: {_per_cent(one.error_rate.value)} {self.event}"
        said += f", others {_per_cent(one.others)}"
        if one.p_overconfident is not None and one.p_overconfident <= self.level:
            assert one.mean_confidence is not None
            said += f", though the mean confidence is {_per_cent(one.mean_confidence)}"
        return said

    def __str__(self) -> str:
        if not self.found:
            return (
                f"no slice of {self.tested} tested is {self.event} more often than chance allows "
                f"({self.samples:,} samples, {self.conjunctions:,} conjunctions searched)"
            )
        return "\n".join(f"{self.words(one)} ({one.samples:,} samples)" for one in self.found)


def find_slices(
    wrong: Numbers,
    columns: Any,
    *,
    confidence: Numbers | None = None,
    level: float = 0.02,
    event: str = "wrong",
    seed: int = 0,
) -> Slices:
    """Find where a network is wrong more often than elsewhere, or overconfident, and test it.

    `find_slices(answers != labels, {"age": age, "site": site}, confidence=confidence)`. All
    conjunctions of one or two conditions are searched on a random half of the samples (at most
    10,000), and the best thirty are tested on the other half; then the halves change places. Of
    errors it is Fisher's exact test against the other samples. Of overconfidence it asks for more
    errors than the confidence allows (Poisson binomial) and than other samples of equal confidence
    have; the larger p-value counts. All p-values are corrected together (Holm), so that with a
    chance of at least 1 - level no slice is reported that is not one. Samples must be independent
    of each other.

    wrong: whether each answer is an error, `(N,)`.
    columns: a mapping of names to numbers, words or truth values, a pandas frame, or an array `(N,
      D)`.
    confidence: confidence of each sample, from 0 to 1, `(N,)`; None: overconfidence is not tested.
    level: largest chance of reporting any slice where there is none.
    event: what `wrong` is called in words.
    seed: seed of the random draws.
    """
    bad, table, sure = _checked(wrong, columns, confidence, level)
    halves = torch.randperm(len(bad), generator=generator(seed, "slices")).tensor_split(2)
    if min(bad[half].sum() for half in halves) < ERRORS:
        raise NescioError(
            f"{int(bad.sum()):,} of {len(bad):,} samples are {event}: too few to find slices; a "
            f"search needs at least {ERRORS} in each half"
        )
    first, second = (half.numpy() for half in halves)
    trials = [
        _trial(bad, table, sure, search[:SEARCHED], np.sort(test))
        for search, test in ((first, second), (second, first))
    ]
    return Slices(
        found=_confirmed(trials, level),
        event=event,
        level=level,
        samples=len(bad),
        errors=int(bad.sum()),
        conjunctions=max(trial.searched for trial in trials),
        tested=sum(len(trial.slices) for trial in trials),
        columns=tuple(table),
    )


def _trial(
    bad: Flags,
    table: Mapping[str, NDArray[Any]],
    sure: Floats | None,
    search: NDArray[np.int64],
    test: NDArray[np.int64],
) -> "Trial":
    """Slices found on the rows `search`, to be tested on the rows `test`."""
    strata = None if sure is None else _strata(sure, search)
    found = candidates(
        {name: values[search] for name, values in table.items()},
        _kinds(bad[search], None if strata is None else strata[search]),
        least=max(FEWEST, int(SMALLEST * len(search))),
        most=TESTED,
    )
    inside = [holding(each, table) for each in found.slices]
    return Trial(
        wrong=bad,
        confidence=sure,
        strata=strata,
        rows=test,
        slices=found.slices,
        inside=inside,
        searched=found.searched,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What tests slices: errors and confidences of all samples, and the rows that test."""

    wrong: Flags
    confidence: Floats | None
    strata: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    slices: tuple[tuple[Condition, ...], ...]  # found on other rows, the clearest first
    inside: list[Flags]  # of all samples
    searched: int  # conjunctions

    @cached_property
    def corrected(self) -> Floats:
        """P-values `(slices, tests)`, corrected for their number; the first slices weigh more.

        Weights are chosen before the test, so the clearest slices have most of the level.
        """
        tests = [self.tests(mine, self.rows) for mine in self.inside]
        if not tests:
            return np.ones((0, 1))
        rank = np.repeat(np.arange(1, len(tests) + 1), len(tests[0]))
        return holm(np.concatenate(tests), 1 / (rank * (rank + 1))).reshape(len(tests), -1)

    def evidence(self, k: int) -> float:
        """How clear a slice is among all samples, less what a second condition costs."""
        mine, rate = self.inside[k], float(self.wrong.mean())
        size = int(mine.sum())
        score = (self.wrong[mine].sum() - size * rate) / math.sqrt(size * rate * (1 - rate))
        return float(score * abs(score) / 2 - SECOND * (len(self.slices[k]) - 1))

    def repeats_nothing(self, mine: Flags, rest: NDArray[np.int64], which: Flags) -> bool:
        """Whether what was confirmed holds too among the samples of no clearer slice."""
        if not mine[rest].any():
            return False
        again = np.array(self.tests(mine, rest))
        return bool((again[which] <= AGAIN).any())

    def tests(self, mine: Flags, rows: NDArray[np.int64]) -> list[float]:
        """P-values: more errors than other samples have; and, with confidences, overconfident."""
        bad, own = self.wrong[rows], mine[rows]
        if not own.any() or own.all():
            return [1.0] * (1 if self.confidence is None else 2)
        found = [excess_test(bad, own)]
        if self.confidence is not None:
            assert self.strata is not None
            sure = self.confidence[rows][own]
            alike = excess_test(bad, own, self.strata[rows])
            found.append(max(alike, overconfidence_test(sure, bad[own])))
        return found

    def slice(self, k: int, p: Floats, tested: int) -> Slice:
        """A slice with its numbers."""
        mine = self.inside[k]
        bad, own = self.wrong[self.rows], mine[self.rows]
        errors, samples = int(bad[own].sum()), int(own.sum())
        more: dict[str, Any] = {}
        if self.confidence is not None:
            more["mean_confidence"] = float(self.confidence[self.rows][own].mean())
            more["alike"] = self._alike(own)
            more["p_overconfident"] = float(p[1])
        return Slice(
            conditions=self.slices[k],
            samples=samples,
            errors=errors,
            error_rate=binomial_interval(errors, samples, level=1 - 0.05 / tested),
            others=float(bad[~own].mean()),
            p_wrong=float(p[0]),
            share=float(mine.mean()),
            rows=tuple((mine & self.wrong).nonzero()[0][:ROWS].tolist()),
            **more,
        )

    def _alike(self, own: Flags) -> float | None:
        """The error rate of other samples, in the shares that the slice has of each stratum."""
        assert self.strata is not None
        strata, bad = self.strata[self.rows], self.wrong[self.rows]
        size = int(strata.max()) + 1
        mine, others = (np.bincount(strata[part], minlength=size) for part in (own, ~own))
        errors = np.bincount(strata[~own], weights=bad[~own], minlength=size)
        both = others > 0
        if not mine[both].any():
            return None
        return float(mine[both] @ (errors[both] / others[both]) / mine[both].sum())


def _confirmed(trials: Sequence[Trial], level: float) -> tuple[Slice, ...]:
    """The slices that the tests confirm, without those that only repeat clearer ones.

    Each trial has an equal part of the level: they test slices on different samples.
    """
    tested = sum(len(trial.slices) for trial in trials)
    each = [(trial, k, np.minimum(1.0, len(trials) * trial.corrected[k]))
            for trial in trials for k in range(len(trial.slices))]  # fmt: skip
    passed = [(trial, k, p) for trial, k, p in each if p.min() <= level]
    shown: list[Slice] = []
    covered = np.zeros(len(trials[0].wrong), bool)
    for trial, k, p in sorted(passed, key=lambda one: -one[0].evidence(one[1])):
        rest = trial.rows[~covered[trial.rows]]
        if trial.repeats_nothing(trial.inside[k], rest, p <= level):
            shown.append(trial.slice(k, p, tested))
            covered |= trial.inside[k]
    return tuple(shown)


def _checked(
    wrong: Numbers, columns: Any, confidence: Numbers | None, level: float
) -> tuple[Flags, Mapping[str, NDArray[Any]], Floats | None]:
    check_level(level)
    given = numbers("wrong", wrong, axes=1)
    if not np.isin(given, (0, 1)).all():
        raise NescioError("`wrong` must hold 0 or 1 for each sample: answers != labels")
    table = read_columns(columns)
    if not table:
        raise NescioError("there are no columns to describe slices with; give at least one")
    sure = None if confidence is None else numbers("confidence", confidence, axes=1)
    if sure is not None and not np.all((sure >= 0) & (sure <= 1 + 1e-6)):
        raise NescioError("`confidence` must be from 0 to 1; give probabilities, not logits")
    sizes = {"wrong": len(given), "columns": len(next(iter(table.values())))}
    sizes |= {} if sure is None else {"confidence": len(sure)}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
        raise NescioError(f"expected one value per sample of each, got {said}")
    return given.astype(bool), table, None if sure is None else sure.astype(np.float64).clip(0, 1)


def _strata(sure: Floats, search: NDArray[np.int64]) -> NDArray[np.int64]:
    """Samples of about equal confidence: strata in which about equally many errors are expected."""
    ordered = np.sort(sure[search])
    mass = np.cumsum(1 - ordered)
    targets = mass[-1] * np.arange(1, STRATA) / STRATA
    edges = np.unique(ordered[np.searchsorted(mass, targets).clip(max=len(ordered) - 1)])
    return np.searchsorted(edges, sure, side="right").astype(np.int64)


def _kinds(bad: Flags, strata: NDArray[np.int64] | None) -> list[Excess]:
    """Errors beyond those of all samples, and beyond those of samples of equal confidence."""
    strata_of = [np.zeros(len(bad), np.int64), *([] if strata is None else [strata])]
    found = []
    for each in strata_of:
        count = np.bincount(each)
        rate = (np.bincount(each, weights=bad) / np.maximum(count, 1))[each]
        found.append(Excess(beyond=bad - rate, variance=rate * (1 - rate)))
    return found


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.0095 < share < 0.9905 else f"{100 * share:.1f} %"
