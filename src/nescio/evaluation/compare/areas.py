"""Mean AUROCs over several OOD sets: their covariance, intervals, and who shares the first place.

DeLong et al. (1988) for one OOD set. OOD sets share the in-distribution data, so the placements of
an inside score are averaged over the sets before their variance is taken; those of outside scores
are not shared, and their variances add.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio import metrics
from nescio.metrics.paired import from_best, logit_interval, normal_difference, share_below

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = tuple[
    Array, Sequence[Array]
]  # of the in-distribution data, and of each OOD set


@dataclass(frozen=True, eq=False)
class Areas:
    """The mean AUROCs of K detectors `(K,)` and the covariance of these `(K, K)`."""

    values: Floats
    covariance: Floats

    def interval(self, place: int, level: float) -> metrics.Interval:
        """The interval of one, made for its log-odds, so that it stays in (0, 1)."""
        return logit_interval(
            float(self.values[place]), float(self.covariance[place, place]), level
        )

    def first(self, level: float) -> tuple[Floats, list[bool]]:
        """P-values against the best, and whether each shares the first place."""
        return first_places(self.values, self._p, level)

    def _p(self, i: int, j: int) -> float:
        return normal_difference(self.values, self.covariance, i, j, 0.95).p


def first_places(
    values: Floats, p_of: Callable[[int, int], float], level: float
) -> tuple[Floats, list[bool]]:
    """P-values `(K,)` against the largest value, and whether each shares the first place.

    p_of: the two-sided p-value of the values at two places. All pairs are corrected together (Holm,
    1979), as the best is chosen from the same data. Where all share the first place, none does.
    """
    found = from_best(len(values), int(values.argmax()), p_of)
    shared = found >= 1 - level
    return found, [bool(one) and not shared.all() for one in shared]


def mean_areas(detectors: Sequence[Scores]) -> Areas:
    """Mean AUROCs over the OOD sets, all detectors on the same samples in the same order."""
    inner, outer = zip(*(_placements(*scores) for scores in detectors), strict=True)
    in_dist = np.stack(inner)  # (K, N)
    sets = [np.stack(column) for column in zip(*outer, strict=True)]  # (K, M) for each OOD set
    covariance = _covariance(in_dist) + sum(map(_covariance, sets)) / len(sets) ** 2
    return Areas(np.mean([rows.mean(1) for rows in sets], axis=0), np.asarray(covariance))


def _placements(in_dist: Array, ood_sources: Sequence[Array]) -> tuple[Floats, list[Floats]]:
    """Shares of outside scores above each inside one, averaged over the sets; the reverse."""
    ordered = np.sort(in_dist)
    above = np.mean([1 - share_below(np.sort(scores), in_dist) for scores in ood_sources], axis=0)
    return above, [share_below(ordered, scores) for scores in ood_sources]


def _covariance(rows: Floats) -> Floats:
    """Of the means of K rows, `(K, K)`."""
    centered = rows - rows.mean(1, keepdims=True)
    samples = rows.shape[1]
    product: Floats = centered @ centered.T / (samples * (samples - 1))
    return product
