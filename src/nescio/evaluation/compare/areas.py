"""The numbers of a comparison with their intervals; mean AUROCs, and who shares the first place.

DeLong et al. (1988) for one OOD set. OOD sets share the in-distribution data, so the placements of
a test score are averaged over the sets before their variance is taken; those of OOD scores
are not shared, and their variances add.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio import metrics
from nescio.core import check_level
from nescio.metrics.paired import from_best, logit_interval, normal_difference, share_below
from nescio.metrics.ranking import Positive
from nescio.metrics.resampling import check

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = tuple[
    Array, Sequence[Array]
]  # of the in-distribution data, and of each OOD set


@dataclass(frozen=True)
class Bootstrap:
    """How bootstrap intervals are made; without resamples there are values alone."""

    level: float
    resamples: int
    seed: int

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.resamples != 0:  # say what is wrong before the work
            check(self.level, self.resamples, self.seed)

    def mean(self, values: Array) -> metrics.Interval:
        """The mean of one number per sample, `(N,)`, or of several draws of members, `(D, N)`."""
        if self.resamples == 0:
            return _bare(float(np.atleast_2d(values)[0].mean()))
        return metrics.bootstrap_mean(values, **asdict(self))

    def ranking(
        self, in_dist: Array, ood: Array, of: Sequence[str], positive: Positive
    ) -> dict[str, metrics.Interval]:
        """Some of AUROC, AUPR and FPR at 95 % TPR by name."""
        if self.resamples:
            names = {name: name.replace("_95", "") for name in of}
            found = metrics.bootstrap_ranking(
                in_dist, ood, of=tuple(names.values()), positive=positive, **asdict(self)
            )
            return {name: found[inner] for name, inner in names.items()}
        ranking = metrics.rank(in_dist, ood)
        values = {
            "auroc": ranking.auroc,
            "aupr": ranking.aupr if positive == "ood" else ranking.aupr_in_dist,
            "fpr_at_95_tpr": ranking.fpr_at_tpr(0.95, positive),
        }
        return {name: _bare(values[name]) for name in of}


def _bare(value: float) -> metrics.Interval:
    return metrics.Interval(value, None, None)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Areas:
    """The mean AUROCs of K detectors `(K,)` and the covariance of these `(K, K)`."""

    values: Floats
    covariance: Floats

    def interval(self, index: int, level: float) -> metrics.Interval:
        """The interval of one, computed for its log-odds, so that it stays in (0, 1)."""
        return logit_interval(
            float(self.values[index]), float(self.covariance[index, index]), level
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

    p_of: the two-sided p-value of the values at two positions. All pairs are corrected together
    (Holm, 1979), as the best is chosen from the same data. Where all share the first place, none
    does.
    """
    p = from_best(len(values), int(values.argmax()), p_of)
    shared = p >= 1 - level
    return p, [bool(one) and not shared.all() for one in shared]


def mean_areas(detectors: Sequence[Scores]) -> Areas:
    """Mean AUROCs over the OOD sets, all detectors on the same samples in the same order."""
    inner, outer = zip(*(_placements(*scores) for scores in detectors), strict=True)
    in_dist = np.stack(inner)  # (K, N)
    sets = [np.stack(column) for column in zip(*outer, strict=True)]  # (K, M) for each OOD set
    covariance = _covariance(in_dist) + sum(map(_covariance, sets)) / len(sets) ** 2
    return Areas(np.mean([rows.mean(1) for rows in sets], axis=0), np.asarray(covariance))


def _placements(in_dist: Array, ood_sources: Sequence[Array]) -> tuple[Floats, list[Floats]]:
    """Shares of OOD scores above each test score, averaged over the sets; the reverse."""
    ordered = np.sort(in_dist)
    above = np.mean([1 - share_below(np.sort(scores), in_dist) for scores in ood_sources], axis=0)
    return above, [share_below(ordered, scores) for scores in ood_sources]


def _covariance(rows: Floats) -> Floats:
    """Of the means of K rows, `(K, K)`."""
    centered = rows - rows.mean(1, keepdims=True)
    samples = rows.shape[1]
    product: Floats = centered @ centered.T / (samples * (samples - 1))
    return product
