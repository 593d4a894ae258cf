"""Variance of AUROC without resampling (DeLong et al., 1988), in O(n log n) (Sun and Xu, 2014).

The placement of an OOD score is the share of in-distribution scores below it (ties one half), that
of an in-distribution score the share of OOD scores above it. AUROC is the mean of either, and its
variance is var(OOD placements) / M + var(in-distribution placements) / N.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.metrics.as_arrays import Floats, Numbers, check_level, numbers
from nescio.metrics.intervals import Interval
from nescio.metrics.ranking import Ranking, rank

BLOCK = 1 << 16  # samples at a time, of all detectors

Pair: TypeAlias = tuple[Numbers, Numbers]


def delong_interval(
    in_dist: Numbers, ood: Numbers, *, level: float = 0.95, logit: bool = False
) -> Interval:
    """AUROC with its asymptotic interval, cut to [0, 1].

    logit: make the interval for log(a / (1 - a)) and turn it back: it stays in (0, 1) by itself
        and covers better near 1. Where the sides do not overlap (AUROC 0 or 1), or all scores
        are equal, the variance is 0 and the interval one point.
    """
    check_level(level)
    ranking = rank(in_dist, ood)
    pair = (ranking.in_dist, ranking.ood)  # sorted: the order of one detector's samples is free
    area, variance = ranking.auroc, float(_covariance([ranking], [pair])[0, 0])
    if logit:
        return logit_interval(area, variance, level)
    margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    return Interval(area, max(0.0, area - margin), min(1.0, area + margin))


def logit_interval(area: float, variance: float, level: float) -> Interval:
    """The interval of an area, made for its log-odds: it stays in (0, 1)."""
    if variance == 0 or not 0 < area < 1:
        return Interval(area, area, area)
    margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    center, half = math.log(area / (1 - area)), margin / (area * (1 - area))
    return Interval(area, _logistic(center - half), _logistic(center + half))


def delong_covariance(detectors: Sequence[Pair]) -> tuple[Floats, Floats]:
    """The AUROCs of K detectors and the covariance of these, (K,) and (K, K).

    detectors: (in_dist, ood) scores of each, for the same samples in the same order.
    """
    pairs = same_samples(detectors)
    rankings = [rank(*pair) for pair in pairs]
    return np.array([each.auroc for each in rankings]), _covariance(rankings, pairs)


def same_samples(detectors: Sequence[Pair]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The scores as arrays; detectors that scored other numbers of samples are refused."""
    if not detectors:
        raise NescioError("there are no detectors to compare; give (in_dist, ood) scores of each")
    pairs = [
        (numbers("in_dist", in_dist, axes=1), numbers("ood", ood, axes=1))
        for in_dist, ood in detectors
    ]
    sizes = [(len(in_dist), len(ood)) for in_dist, ood in pairs]
    for size in sizes:
        if size != sizes[0]:
            raise NescioError(
                "a paired test needs the scores of the same samples in the same order, got "
                f"{sizes[0]} and {size} (in_dist, ood) scores; score the same data with both"
            )
    return pairs


def _covariance(rankings: Sequence[Ranking], pairs: Sequence[tuple[Any, Any]]) -> Floats:
    total: Floats = np.zeros((len(pairs), len(pairs)))
    for side, name in enumerate(("in_dist", "ood")):
        samples = len(pairs[0][side])
        if samples < 2:
            raise NescioError(
                f"DeLong's variance needs two or more samples per side, got 1 {name} score; "
                "score more samples, or use `bootstrap_ranking`"
            )
        squares = sum(block @ block.T for block in _centered(rankings, pairs, side))
        total += squares / (samples * (samples - 1))
    return total


def _centered(
    rankings: Sequence[Ranking], pairs: Sequence[tuple[Any, Any]], side: int
) -> Iterator[Floats]:
    """Placements less their mean, (K, n) for some samples after others."""
    step = max(1, BLOCK // len(pairs))
    for start in range(0, len(pairs[0][side]), step):
        rows = []
        for ranking, pair in zip(rankings, pairs, strict=True):
            others = (ranking.ood, ranking.in_dist)[side]
            scores = pair[side][start : start + step].astype(others.dtype, copy=False)
            share = share_below(others, scores)
            rows.append((share if side else 1 - share) - ranking.auroc)
        yield np.stack(rows)


def share_below(ordered: NDArray[Any], scores: NDArray[Any]) -> Floats:
    """The share of sorted numbers below each score; equal ones count one half."""
    below = np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    share: Floats = below / (2 * len(ordered))
    return share


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
