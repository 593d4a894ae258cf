"""How well a score separates OOD from in-distribution: AUROC, AUPR, FPR at a TPR, errors; exact.

Scores are larger when further out, and OOD is the positive class. Each side is sorted once;
everything else is a count in a sorted array, so ties are right and the order alone matters (but
for AUTC, which reads the scores themselves).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import Counts, NescioError, Numbers, numbers
from nescio.core.registry import metrics

Positive: TypeAlias = Literal["ood", "in_dist"]
First = TypeVar("First")
Second = TypeVar("Second")

BLOCK = 1 << 14  # scores of one step: the counts stay in the cache
THREADED = 200_000  # scores from which the work is worth two threads


@metrics.register
def auroc(in_dist: Numbers, ood: Numbers) -> float:
    """Chance that an OOD score is above an in-distribution one; ties count one half.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    """
    return rank(in_dist, ood).auroc


@metrics.register
def aupr(in_dist: Numbers, ood: Numbers, *, positive: Positive = "ood") -> float:
    """Average precision (a step sum) of the positive class; chance level: its share of all.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    positive: the positive class, `"ood"` or `"in_dist"`; with `"in_dist"` the smallest scores come
      first.
    """
    ranking = rank(in_dist, ood)
    return (ranking if is_ood(positive) else ranking.mirrored).aupr


@metrics.register
def fpr_at_tpr(
    in_dist: Numbers, ood: Numbers, *, tpr: float = 0.95, positive: Positive = "ood"
) -> float:
    """Share of false alarms where `tpr` of the positives are caught.

    Two conventions are in print. OOD is positive (`"ood"`): the share of the in-distribution data
    that is flagged (score >= t) at the largest t that catches `tpr` of the OOD data.
    In-distribution is positive (`"in_dist"`): the share of the OOD data that is accepted
    (score <= t) at the smallest t that accepts `tpr` of the in-distribution data.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    tpr: share of the positives to catch, above 0 and at most 1.
    positive: the positive class, `"ood"` or `"in_dist"`: which of the two conventions.
    """
    return rank(in_dist, ood).fpr_at_tpr(tpr, positive)


@metrics.register
def detection_error(in_dist: Numbers, ood: Numbers) -> float:
    """Smallest mean of the two error rates, (FPR(t) + FNR(t)) / 2, over all thresholds t.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    """
    return rank(in_dist, ood).detection_error


@metrics.register
def autc(in_dist: Numbers, ood: Numbers) -> float:
    """Area under the threshold curves (Humblot-Renaux et al., 2023); smaller is better.

    The mean of the areas under FPR(t) and FNR(t), t from 0 to 1, for scores scaled to [0, 1] by
    the smallest and largest of all: (mean of in_dist + 1 - mean of ood) / 2. Constant scores
    give 1/2. Unlike the others it changes when the scores are stretched unevenly.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    """
    return rank(in_dist, ood).autc


def rank(in_dist: Numbers, ood: Numbers) -> "Ranking":
    """Sort both sides once, so that several metrics share the work.

    >>> rank([0.1, 0.2, 0.3], [0.3, 0.4]).auroc
    0.9166666666666666

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    """
    first, second = numbers("in_dist", in_dist, axes=1), numbers("ood", ood, axes=1)
    _refuse_truth(first, second)
    common = np.result_type(first, second)  # once: searchsorted would convert in every block
    first, second = first.astype(common, copy=False), second.astype(common, copy=False)
    samples = min(len(first), len(second))
    return Ranking(*in_two(samples, lambda: np.sort(first), lambda: np.sort(second)))


def _refuse_truth(first: NDArray[Any], second: NDArray[Any]) -> None:
    """Refuse scores beside a truth of 0 and 1, as scikit-learn takes them."""
    if len(first) != len(second) or "f" not in (first.dtype.kind, second.dtype.kind):
        return
    for side in (first, second):
        if side.dtype == bool or (side.dtype.kind in "iu" and set(np.unique(side)) == {0, 1}):
            raise NescioError(
                "expected the scores of in-distribution samples and those of OOD samples, got "
                "scores and flags of 0 and 1; split them: auroc(scores[~is_ood], scores[is_ood])"
            )


class Steps(NamedTuple):
    """Some of the distinct OOD scores in rising order, each as a threshold."""

    equal: Counts  # OOD scores equal to it
    true: Counts  # OOD scores at or above it
    below: Counts  # in-distribution scores below it
    upto: Counts  # in-distribution scores below or equal


@dataclass(frozen=True, eq=False)
class Ranking:
    """Two sorted groups of scores; `rank` builds it.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`,
      each in rising order.
    """

    in_dist: NDArray[Any]
    ood: NDArray[Any]

    def __post_init__(self) -> None:
        for name, scores in (("in_dist", self.in_dist), ("ood", self.ood)):
            if np.isnan(scores[-1]):  # NaN sorts last
                refuse_nan(name, scores)
            if not np.all(scores[:-1] <= scores[1:]):
                raise NescioError(f"`{name}` is not sorted; make a Ranking with `rank`")

    @property
    def auroc(self) -> float:
        """Area under the ROC curve; ties count one half."""
        return self._areas[0]

    @property
    def aupr(self) -> float:
        """Mean, over the OOD scores, of the precision at that score as a threshold."""
        return self._areas[1]

    @property
    def aupr_in_dist(self) -> float:
        """The same with in-distribution as the positive class and the smallest scores first."""
        return self.mirrored.aupr

    @cached_property
    def mirrored(self) -> "Ranking":
        """The sides exchanged and the order turned round: in-distribution is positive."""
        turn = np.negative if self.in_dist.dtype.kind == "f" else np.invert
        return Ranking(turn(self.ood[::-1]), turn(self.in_dist[::-1]))

    @cached_property
    def detection_error(self) -> float:
        """Smallest mean of FPR and FNR over all thresholds."""
        samples, others = len(self.in_dist), len(self.ood)
        gain = max(
            int((samples * step.true - others * (samples - step.below)).max())
            for step in self.steps()
        )
        return (samples * others - gain) / (2 * samples * others)

    @cached_property
    def autc(self) -> float:
        """Mean of the areas under FPR and FNR as functions of the scaled threshold."""
        low = min(float(self.in_dist[0]), float(self.ood[0])) / 2  # halves: no overflow
        high = max(float(self.in_dist[-1]), float(self.ood[-1])) / 2
        if np.isinf(low) or np.isinf(high):
            count = sum(int(np.isinf(side).sum()) for side in (self.in_dist, self.ood))
            raise NescioError(
                f"{count} scores are infinite, so they have no scale from 0 to 1 for AUTC; "
                "expected finite scores: drop or repair those samples, or use another metric"
            )
        if low == high:
            return 0.5
        accepted, flagged = (_scaled_mean(side, low, high) for side in (self.in_dist, self.ood))
        return (accepted + 1 - flagged) / 2

    @cached_property
    def _areas(self) -> tuple[float, float]:
        """AUROC and AUPR from one walk along both sorted sides."""
        half = int(np.searchsorted(self.ood, self.ood[len(self.ood) // 2]))
        (twice, precision), (more, further) = in_two(
            len(self.ood), lambda: self._summed(0, half), lambda: self._summed(half, None)
        )
        samples, others = len(self.in_dist), len(self.ood)
        return (twice + more) / (2 * samples * others), (precision + further) / others

    def _summed(self, start: int, stop: int | None) -> tuple[int, float]:
        """Twice the pairs in the right order, and the sum of precisions."""
        twice, precision = 0, 0.0
        for equal, true, below, upto in self.steps(start, stop):
            twice += int(equal @ (below + upto))
            shares = true / (true - below + len(self.in_dist))
            precision += float((equal * shares).sum())  # not `@`: BLAS would start its threads
        return twice, precision

    def steps(self, start: int = 0, stop: int | None = None) -> Iterator[Steps]:
        """The distinct OOD scores from index `start` to `stop`, in blocks.

        start: index of the first OOD score; no score before it may be equal to it.
        stop: index after the last OOD score, with the same condition; None: the number of OOD
          scores.
        """
        stop = len(self.ood) if stop is None else stop
        low = int(np.searchsorted(self.in_dist, self.ood[start]))
        while start < stop:
            last = self.ood[min(start + BLOCK, stop) - 1]
            end = int(np.searchsorted(self.ood, last, "right"))  # ties stay together
            high = int(np.searchsorted(self.in_dist, last, "right"))
            yield self._step(start, end, low, high)
            start, low = end, high

    def _step(self, start: int, stop: int, low: int, high: int) -> Steps:
        block, near = self.ood[start:stop], self.in_dist[low:high]
        first = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]]))
        scores = block[first]
        below = np.searchsorted(near, scores)
        upto = below.copy()
        if len(near) > 0:
            tied = np.flatnonzero(near.take(below, mode="clip") == scores)
            upto[tied] = np.searchsorted(near, scores[tied], "right")
        equal = np.diff(first, append=len(block))
        return Steps(equal, len(self.ood) - start - first, below + low, upto + low)

    def fpr_at_tpr(self, tpr: float = 0.95, positive: Positive = "ood") -> float:
        """False positive rate at the first threshold of the exact ROC that reaches `tpr`.

        tpr: share of the positives to catch, above 0 and at most 1.
        positive: the positive class, `"ood"` or `"in_dist"`; see the function `fpr_at_tpr`.
        """
        if is_ood(positive):
            threshold = self.ood[-least_count(tpr, len(self.ood))]
            below = int(np.searchsorted(self.in_dist, threshold, "left"))
            return (len(self.in_dist) - below) / len(self.in_dist)
        threshold = self.in_dist[least_count(tpr, len(self.in_dist)) - 1]
        return int(np.searchsorted(self.ood, threshold, "right")) / len(self.ood)


def refuse_nan(name: str, scores: NDArray[Any]) -> NoReturn:
    """Say how many scores are NaN."""
    raise NescioError(
        f"`{name}` holds NaN in {np.isnan(scores).sum()} of {len(scores)} scores, which have no "
        "rank; expected numbers or +-inf: drop or repair those samples first"
    )


def _scaled_mean(scores: NDArray[Any], low: float, high: float) -> float:
    """Mean of the scores as shares of the way from 2 `low` to 2 `high`."""
    total = 0.0
    for start in range(0, len(scores), BLOCK):
        block = scores[start : start + BLOCK].astype(np.float64)
        total += float(((block / 2 - low) / (high - low)).sum())
    return total / len(scores)


def is_ood(positive: Positive) -> bool:
    if positive not in ("ood", "in_dist"):
        raise NescioError(f"`positive` must be 'ood' or 'in_dist', got {positive!r}")
    return positive == "ood"


def least_count(tpr: float, count: int) -> int:
    """Smallest k with k / count >= tpr, from the decimal as written: 0.55 of 100 is 55."""
    if not 0 < tpr <= 1:
        raise NescioError(f"`tpr` must be above 0 and at most 1, got {tpr}; 0.95 is usual")
    return -(-Fraction(str(float(tpr))) * count // 1)


def in_two(
    samples: int, first: Callable[[], First], second: Callable[[], Second]
) -> tuple[First, Second]:
    """Two pieces of work side by side, where they are large and torch may use two threads."""
    if samples < THREADED or torch.get_num_threads() < 2:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        return first(), other.result()
