"""Percentile bootstrap intervals (Efron, 1979), and exact bounds on a rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nescio.core import NescioError
from nescio.metrics.as_arrays import Floats, Numbers, numbers
from nescio.metrics.ranking import Positive, rank
from nescio.metrics.resampling import IN_DIST, ask, check, counted, draws


@dataclass(frozen=True)
class Interval:
    """A number of all samples, and the bounds about it."""

    value: float
    low: float
    high: float


def bootstrap_mean(
    values: Numbers, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """The mean of one number per sample, with its interval: confidence, error (0 or 1), Brier, NLL.

    Where all samples agree, the interval is one point: no resample can differ.
    """
    check(level, resamples, seed)
    samples = numbers("values", values, axes=1).astype(np.float64)
    if not np.all(np.isfinite(samples)):
        raise NescioError("`values` holds NaN or infinity, which has no mean; repair those samples")
    drawn = draws(len(samples), resamples, seed, IN_DIST, block=len(samples))
    means = np.concatenate([samples[rows].mean(axis=1) for rows in drawn])
    return percentiles(float(samples.mean()), means, level)


def bootstrap_ranking(
    in_dist: Numbers,
    ood: Numbers,
    *,
    of: Sequence[str] = ("auroc", "aupr", "fpr_at_tpr"),
    tpr: float = 0.95,
    positive: Positive = "ood",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Ranking metrics with their intervals, by the names of their functions.

    of: also `detection_error` and `autc`.
    tpr, positive: those of `fpr_at_tpr` and `aupr`.

    Both sides are drawn again, each by itself. Where the sides do not overlap, the interval of
    what the order alone decides is one point: no resample can differ.
    """
    check(level, resamples, seed)
    question, ranking = ask(of, tpr, positive), rank(in_dist, ood)
    values, ranks = question.of_all(ranking), question.ranks(ranking)
    sizes = len(ranking.in_dist), len(ranking.ood)
    blocks = [question.of_resamples(ranks, *counts) for counts in counted(sizes, resamples, seed)]
    resampled = zip(question.of, values, np.concatenate(blocks, axis=1), strict=True)
    return {name: percentiles(value, each, level) for name, value, each in resampled}


def percentiles(value: float, resampled: Floats, level: float) -> Interval:
    """The bounds that hold a share `level` of the resamples, the rest split evenly."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def upper_bound(successes: Any, samples: Any, confidence: float) -> Floats:
    """The rate is at most this (Clopper and Pearson, 1934): 1 where there are no samples."""
    from scipy.special import betaincinv

    hits, count = np.asarray(successes, np.float64), np.asarray(samples, np.float64)
    bound = betaincinv(hits + 1, np.maximum(count - hits, 1e-300), confidence)
    return np.where(hits >= count, 1.0, bound)


def lower_bound(successes: Any, samples: Any, confidence: float) -> Floats:
    """The rate is at least this: 0 where there are no samples."""
    from scipy.special import betaincinv

    hits, count = np.asarray(successes, np.float64), np.asarray(samples, np.float64)
    bound = betaincinv(np.maximum(hits, 1e-300), count - hits + 1, 1 - confidence)
    return np.where(hits <= 0, 0.0, bound)
