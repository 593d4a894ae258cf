"""How well a score separates outside from inside: AUROC, AUPR and FPR at a TPR, exact with ties.

Scores are larger when further out, and outside is the positive class. Each side is sorted once;
everything else is a count in a sorted array.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.registry import metrics

Positive: TypeAlias = Literal["outside", "inside"]

BLOCK = 1 << 14  # scores of one step: the counts stay in the cache
THREADED = 200_000  # scores from which the two sorts are worth two threads


@metrics.register
def auroc(inside: Numbers, outside: Numbers) -> float:
    """Chance that an outside score is above an inside one; ties count one half."""
    return rank(inside, outside).auroc


@metrics.register
def aupr(inside: Numbers, outside: Numbers) -> float:
    """Average precision (a step sum) with outside as the positive class."""
    return rank(inside, outside).aupr


@metrics.register
def fpr_at_tpr(
    inside: Numbers, outside: Numbers, *, tpr: float = 0.95, positive: Positive = "outside"
) -> float:
    """Share of false alarms where `tpr` of the positives are found.

    Two conventions are in print. `positive="outside"`: the share of inside scores flagged
    (score >= t) at the largest t that catches `tpr` of outside. `positive="inside"`: the share
    of outside scores accepted (score <= t) at the smallest t that accepts `tpr` of inside.
    """
    return rank(inside, outside).fpr_at_tpr(tpr, positive)


def rank(inside: Numbers, outside: Numbers) -> "Ranking":
    """Sort both sides once, so that several metrics share the work.

    >>> rank([0.1, 0.2, 0.3], [0.3, 0.4]).auroc
    0.9166666666666666
    """
    first, second = numbers("inside", inside, axes=1), numbers("outside", outside, axes=1)
    common = np.result_type(first, second)  # once: searchsorted would convert in every block
    return Ranking(*_sort(first.astype(common, copy=False), second.astype(common, copy=False)))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Two sorted groups of scores, made by `rank`."""

    inside: NDArray[Any]
    outside: NDArray[Any]

    def __post_init__(self) -> None:
        for name, scores in (("inside", self.inside), ("outside", self.outside)):
            if np.isnan(scores[-1]):  # NaN sorts last
                raise NescioError(
                    f"`{name}` holds NaN, which has no rank; expected numbers or +-inf: "
                    "drop or repair those cases first"
                )
            if not np.all(scores[:-1] <= scores[1:]):
                raise NescioError(f"`{name}` is not sorted; make a Ranking with `rank`")

    @property
    def auroc(self) -> float:
        """Area under the ROC curve; ties count one half."""
        return self._areas[0]

    @property
    def aupr(self) -> float:
        """Mean, over the outside scores, of the precision at that score as a threshold."""
        return self._areas[1]

    @cached_property
    def _areas(self) -> tuple[float, float]:
        """AUROC and AUPR from one walk along both sorted sides."""
        twice, precision, low = 0, 0.0, 0
        for start in range(0, len(self.outside), BLOCK):
            scores = self.outside[start : start + BLOCK]
            high = int(np.searchsorted(self.inside, scores[-1], "right"))
            near = self.inside[low:high]  # where this block's scores can fall
            below = low + np.searchsorted(near, scores, "left")
            twice += int(below.sum()) + int(np.searchsorted(near, scores, "right").sum())
            twice += low * len(scores)
            true = len(self.outside) - self._first_of_ties(start, scores)
            precision += float((true / (true + (len(self.inside) - below))).sum())
            low = int(below[-1])
        return twice / (2 * len(self.inside) * len(self.outside)), precision / len(self.outside)

    def _first_of_ties(self, start: int, scores: NDArray[Any]) -> NDArray[np.int64]:
        """Place, among all outside scores, of the first score equal to each of a block."""
        place = np.arange(start, start + len(scores))
        place[1:][scores[1:] == scores[:-1]] = 0
        place[0] = np.searchsorted(self.outside, scores[0], "left")
        return np.maximum.accumulate(place)

    def fpr_at_tpr(self, tpr: float = 0.95, positive: Positive = "outside") -> float:
        """False positive rate at the first threshold of the exact ROC that reaches `tpr`."""
        if positive == "outside":
            threshold = self.outside[-_least(tpr, len(self.outside))]
            below = int(np.searchsorted(self.inside, threshold, "left"))
            return (len(self.inside) - below) / len(self.inside)
        if positive == "inside":
            threshold = self.inside[_least(tpr, len(self.inside)) - 1]
            return int(np.searchsorted(self.outside, threshold, "right")) / len(self.outside)
        raise NescioError(f"`positive` must be 'outside' or 'inside', got {positive!r}")


def _least(tpr: float, count: int) -> int:
    """Smallest k with k / count >= tpr, from the decimal as written: 0.55 of 100 is 55."""
    if not 0 < tpr <= 1:
        raise NescioError(f"`tpr` must be above 0 and at most 1, got {tpr}; 0.95 is usual")
    return -(-Fraction(str(float(tpr))) * count // 1)


def _sort(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if min(len(first), len(second)) < THREADED:
        return np.sort(first), np.sort(second)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(np.sort, second)
        return np.sort(first), other.result()
