"""How well a score separates outside from inside: AUROC, AUPR and FPR at a TPR, exact with ties.

Scores are larger when further out, and outside is the positive class. Each side is sorted once;
everything else is a count in a sorted array.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.registry import metrics

Positive: TypeAlias = Literal["outside", "inside"]

BLOCK = 1 << 16  # needles in one searchsorted: the counts stay in the cache
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
        twice = 0  # outside score s: inside scores below s, plus those not above it
        for scores in _blocks(self.outside):
            twice += int(np.searchsorted(self.inside, scores, "left").sum())
            twice += int(np.searchsorted(self.inside, scores, "right").sum())
        return twice / (2 * len(self.inside) * len(self.outside))

    @property
    def aupr(self) -> float:
        """Mean, over the outside scores, of the precision at that score as a threshold."""
        total = 0.0
        for scores in _blocks(self.outside):
            true = len(self.outside) - np.searchsorted(self.outside, scores, "left")
            false = len(self.inside) - np.searchsorted(self.inside, scores, "left")
            total += float((true / (true + false)).sum())
        return total / len(self.outside)

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


def _blocks(scores: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(scores), BLOCK):
        yield scores[start : start + BLOCK]
