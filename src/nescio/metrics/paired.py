"""Is one detector better than another on the same samples? Paired tests, with corrections.

AUROC has an exact covariance (DeLong et al., 1988), in O(n log n) (Sun and Xu, 2014). The
placement of an OOD score is the share of in-distribution scores below it (ties one half), that of
an in-distribution score the share of OOD scores above it. AUROC is the mean of either, and its
variance is var(OOD placements) / M + var(in-distribution placements) / N. Other metrics are
bootstrapped with the same draws for all detectors.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Floats, NescioError, Numbers, check_level, numbers
from nescio.metrics.ranking import Positive, Ranking, rank
from nescio.metrics.resampling import (
    LARGER,
    ROUNDING,
    Interval,
    Question,
    ask,
    check,
    counted,
    percentiles,
)

Correction: TypeAlias = Literal["holm", "bh"]


def holm(p: Numbers, weights: Numbers | None = None) -> Floats:
    """P-values corrected for their number (Holm, 1979): it bounds the chance of any false alarm.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]

    p: p-values, `(N,)`.
    weights: numbers above 0, `(N,)`, chosen without looking at `p`; a larger one makes its test
      easier to pass and the others harder. None: all are equal.
    """
    values = _p_values(p)
    share = np.ones(len(values)) if weights is None else numbers("weights", weights, axes=1)
    if len(share) != len(values) or not np.all((share > 0) & np.isfinite(share)):
        raise NescioError(f"expected {len(values)} weights above 0, one for each p-value")
    order = np.argsort(values / share, kind="stable")
    left = share[order][::-1].cumsum()[::-1]
    raised = np.maximum.accumulate(values[order] * (left / share[order]))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def benjamini_hochberg(p: Numbers, level: float) -> Tensor:
    """Which of N p-values to reject, `(N,)`: at most a share `level` of those falsely, on average.

    The largest k with k of the p-values at or below k level / N are rejected (Benjamini and
    Hochberg, 1995). Conformal p-values of one calibration set depend on one another in the way
    that it allows (Bates et al., 2023).

    >>> benjamini_hochberg([0.01, 0.9, 0.03], 0.05).tolist()
    [True, False, True]

    p: p-values, `(N,)`.
    level: expected share of false rejections among the rejections, at most.
    """
    check_level(level)
    device = p.device if isinstance(p, Tensor) else "cpu"
    return torch.from_numpy(adjust(p, "bh") <= level).to(device)


def adjust(p: Numbers, correction: Correction = "holm") -> Floats:
    """Adjusted p-values, in their order: reject those that are at most the level.

    >>> adjust([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])

    p: p-values, `(N,)`.
    correction: `"holm"` bounds the chance of any false alarm, whatever depends on what; `"bh"`
      (Benjamini and Hochberg) bounds the expected share of false alarms among the alarms, for
      independent or positively dependent tests.
    """
    if correction == "holm":
        return holm(p)
    if correction == "bh":
        from scipy.stats import false_discovery_control

        return np.asarray(false_discovery_control(_p_values(p)))
    raise NescioError(f'correction must be "holm" or "bh", got {correction!r}')


def _p_values(p: Numbers) -> Floats:
    values = numbers("p", p, axes=1).astype(np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise NescioError(f"p-values must be from 0 to 1, got {values.min():g} to {values.max():g}")
    return values


BLOCK = 1 << 16  # samples at a time, of all detectors

Pair: TypeAlias = tuple[Numbers, Numbers]


def delong_interval(
    in_dist: Numbers, ood: Numbers, *, level: float = 0.95, logit: bool = False
) -> Interval:
    """AUROC with its asymptotic interval (DeLong et al., 1988), cut to [0, 1].

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    level: confidence level of the interval.
    logit: whether to make the interval for log(a / (1 - a)) and turn it back: it stays in (0, 1) by
      itself and covers better near 1. Where the sides do not overlap (AUROC 0 or 1), or all scores
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
    return np.asarray(below / (2 * len(ordered)))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first number less the second, its interval, and a two-sided p-value.

    value: the difference.
    low, high: ends of its interval.
    p: two-sided p-value of no difference.
    """

    value: float
    low: float
    high: float
    p: float


def delong_test(first: Pair, second: Pair, *, level: float = 0.95) -> Difference:
    """Do the AUROCs of two detectors differ? Each gives (in_dist, ood) scores of one data set.

    Equal AUROCs have p = 1. Where no sample varies (one perfect, one constant), p is 0 or 1.

    first, second: `(in_dist, ood)` scores of each detector, for the same samples in the same order.
    level: confidence level of the interval of the difference.
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

    first, second: `(in_dist, ood)` scores of each detector, for the same samples in the same order.
    of: names of ranking metrics: `auroc`, `aupr`, `fpr_at_tpr`, `detection_error`, `autc`.
    tpr, positive: options of `fpr_at_tpr`; `positive` is also that of the other metrics.
    level: confidence level of the intervals of the differences.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    """
    check(level, resamples, seed)
    question = ask(of, tpr, positive)
    values, again = _resampled([first, second], question, resamples, seed)
    return resampled_differences(question.of, values, again, level)


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

    All pairs are tested and corrected together by `holm`, as the best is chosen from the same data.
    AUROC has DeLong's test, other metrics the paired bootstrap. Those with p from 0.05 up share the
    first position. With K detectors the bootstrap needs about 20 K^2 resamples to find any
    difference.

    detectors: `(in_dist, ood)` scores by name, for the same samples in the same order.
    of: name of the ranking metric that orders the detectors.
    tpr, positive: options of `fpr_at_tpr`; `positive` is also that of the other metrics.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
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
    """The difference of two of K areas with a known covariance, and its normal p-value.

    areas: areas of the detectors, `(K,)`, as `delong_covariance` returns them.
    covariance: their covariance, `(K, K)`.
    i, j: indices of the two areas; the second is subtracted.
    level: confidence level of the interval.
    """
    value = float(areas[i] - areas[j])
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    error = math.sqrt(max(0.0, variance))
    margin = NormalDist().inv_cdf((1 + level) / 2) * error
    if abs(value) <= ROUNDING:
        p = 1.0
    else:
        p = math.erfc(abs(value) / error / math.sqrt(2)) if error > 0 else 0.0
    return Difference(value=value, low=value - margin, high=value + margin, p=p)


def resampled_difference(values: Floats, again: Floats, level: float) -> Difference:
    """The difference of two values from those of their resamples, (2,) and (2, R)."""
    gaps = again[0] - again[1]
    interval = percentiles(float(values[0] - values[1]), gaps, level)
    rarer = min(int((gaps <= ROUNDING).sum()), int((gaps >= -ROUNDING).sum()))
    p = min(1.0, 2 * (rarer + 1) / (len(gaps) + 1))
    return Difference(value=interval.value, low=interval.low, high=interval.high, p=p)


def resampled_differences(
    of: Sequence[str], values: Floats, again: Floats, level: float
) -> dict[str, Difference]:
    """The same of several metrics by name, from (2, names) and (2, names, R)."""
    each = zip(of, values.T, again.swapaxes(0, 1), strict=True)
    return {name: resampled_difference(one, drawn, level) for name, one, drawn in each}


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
