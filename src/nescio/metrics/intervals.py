"""Percentile bootstrap intervals: samples drawn again with replacement (Efron, 1979)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.metrics.as_arrays import Numbers, numbers
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
    values, places = question.of_all(ranking), question.places(ranking)
    sizes = len(ranking.in_dist), len(ranking.ood)
    blocks = [question.of_resamples(places, *counts) for counts in counted(sizes, resamples, seed)]
    found = np.concatenate(blocks, axis=1)
    return {
        name: percentiles(value, resampled, level)
        for name, value, resampled in zip(question.of, values, found, strict=True)
    }


def percentiles(value: float, resampled: NDArray[np.float64], level: float) -> Interval:
    """The bounds that hold a share `level` of the resamples, the rest split evenly."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
