"""Is one detector better than another on the same samples? Paired tests, with corrections.

AUROC has an exact covariance (DeLong et al., 1988); other metrics are bootstrapped with the same
draws for all detectors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np

from nescio.core import NescioError
from nescio.metrics.as_arrays import Floats, check_level
from nescio.metrics.delong import Pair, delong_covariance, same_samples
from nescio.metrics.intervals import percentiles
from nescio.metrics.multiple_tests import holm
from nescio.metrics.ranking import Positive, rank
from nescio.metrics.resampling import LARGER, Question, ask, check, counted


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first detector's number less the second's, its interval, and a two-sided p-value."""

    value: float
    low: float
    high: float
    p: float


def delong_test(first: Pair, second: Pair, *, level: float = 0.95) -> Difference:
    """Do the AUROCs of two detectors differ? Each gives (in_dist, ood) scores of one data set.

    Equal AUROCs have p = 1. Where no sample varies (one perfect, one constant), p is 0 or 1.
    """
    check_level(level)
    areas, covariance = delong_covariance([first, second])
    return normal_difference(areas, covariance, 0, 1, level)


def bootstrap_test(
    first: Pair,
    second: Pair,
    *,
    of: Sequence[str] = ("auroc", "aupr", "fpr_at_tpr"),
    tpr: float = 0.95,
    positive: Positive = "ood",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Difference]:
    """Do two detectors differ in the named metrics? The same samples are drawn for both.

    p is twice the share of resamples on the other side of 0 (0 itself on both), counting the
    data as one more resample, so it is at least 2 / (resamples + 1).
    """
    check(level, resamples, seed)
    question = ask(of, tpr, positive)
    values, again = _resampled([first, second], question, resamples, seed)
    return {
        name: resampled_difference(values[:, index], again[:, index], level)
        for index, name in enumerate(question.of)
    }


def against_best(
    detectors: Mapping[str, Pair],
    *,
    of: str = "auroc",
    tpr: float = 0.95,
    positive: Positive = "ood",
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """The p-value of each detector against the best one; the best has 1.

    detectors: (in_dist, ood) scores by name, for the same samples in the same order.

    All pairs are tested and corrected together by `holm`, as the best is chosen from the same
    data. AUROC has DeLong's test, other metrics the paired bootstrap. Those with p from 0.05 up
    share the first position. With K detectors the bootstrap needs about 20 K^2 resamples to find
    any difference.
    """
    if not detectors:
        raise NescioError('there are no detectors; give scores by name: {"knn": (in_dist, ood)}')
    check(0.95, resamples, seed)
    question = ask([of], tpr, positive)
    pairs = list(detectors.values())
    if of == "auroc":
        values, covariance = delong_covariance(pairs)

        def p_of(i: int, j: int) -> float:
            return normal_difference(values, covariance, i, j, 0.95).p
    else:
        table, again = _resampled(pairs, question, resamples, seed)
        values = table[:, 0]

        def p_of(i: int, j: int) -> float:
            return resampled_difference(values[[i, j]], again[[i, j], 0], 0.95).p

    best = int(values.argmax() if of in LARGER else values.argmin())
    return dict(zip(detectors, from_best(len(pairs), best, p_of).tolist(), strict=True))


def from_best(count: int, best: int, p_of: Callable[[int, int], float]) -> Floats:
    """P-values `(K,)` against the one at `best`, which has 1; all pairs are corrected together.

    p_of: the two-sided p-value of two detectors by index.
    """
    pairs = list(combinations(range(count), 2))
    corrected = holm([p_of(*pair) for pair in pairs]) if pairs else np.ones(0)
    result = np.ones(count)
    for pair, p in zip(pairs, corrected, strict=True):
        if best in pair:
            result[sum(pair) - best] = p
    return result


def normal_difference(
    areas: Floats, covariance: Floats, i: int, j: int, level: float
) -> Difference:
    """The difference of two areas with a known covariance."""
    value = float(areas[i] - areas[j])
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    error = math.sqrt(max(0.0, variance))
    margin = NormalDist().inv_cdf((1 + level) / 2) * error
    if value == 0:
        p = 1.0
    else:
        p = math.erfc(abs(value) / error / math.sqrt(2)) if error > 0 else 0.0
    return Difference(value=value, low=value - margin, high=value + margin, p=p)


def resampled_difference(values: Floats, again: Floats, level: float) -> Difference:
    """The difference of two values from those of their resamples, (2,) and (2, R)."""
    gaps = again[0] - again[1]
    interval = percentiles(float(values[0] - values[1]), gaps, level)
    rarer = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    p = min(1.0, 2 * (rarer + 1) / (len(gaps) + 1))
    return Difference(value=interval.value, low=interval.low, high=interval.high, p=p)


def _resampled(
    detectors: Sequence[Pair], question: Question, resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """The metrics of all samples and of the resamples, (K, names) and (K, names, R)."""
    pairs = same_samples(detectors)
    rankings = [rank(*pair) for pair in pairs]
    ranks = [question.ranks(ranking) for ranking in rankings]
    orders = [tuple(np.argsort(side, kind="stable") for side in pair) for pair in pairs]
    sizes: Any = tuple(len(side) for side in pairs[0])
    blocks = [
        np.stack([
            question.of_resamples(among, in_dist[:, order[0]], ood[:, order[1]])
            for among, order in zip(ranks, orders, strict=True)
        ])
        for in_dist, ood in counted(sizes, resamples, seed)
    ]  # fmt: skip
    values = np.array([question.of_all(ranking) for ranking in rankings])
    return values, np.concatenate(blocks, axis=2)
