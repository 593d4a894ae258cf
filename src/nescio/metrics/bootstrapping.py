"""Bootstrap intervals of any number of the samples: calibration errors, parts of a score."""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.metrics.as_arrays import Numbers, from_torch
from nescio.metrics.binning import BLOCK, ece
from nescio.metrics.calibration_errors import classwise_ece, debiased_ece, mce, smooth_ece
from nescio.metrics.intervals import Interval, percentiles
from nescio.metrics.resampling import CHANCE, IN_DIST, check, draws, stream_of

ERRORS = (ece, mce, classwise_ece, debiased_ece, smooth_ece)  # 0 where all is calibrated


def bootstrap_metric(
    metric: Callable[..., Any],
    *samples: Numbers,
    part: str | None = None,
    unbiased: bool = False,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
    **options: Any,
) -> Interval:
    """A metric of the samples with its interval, the samples drawn again with replacement.

    samples: arrays with one row per sample, as `metric` takes them.
    part: of what the metric returns, such as `reliability` of a decomposition.
    unbiased: for a metric whose mean over samples is the truth.
    options: of the metric, such as `bins`.

    The basic interval: a calibration error of few samples is too large by chance, one of a resample
    by that once more, and the interval takes this off. An unbiased metric keeps its value: its
    resamples are moved so that their mean is its value. A bound may lie below 0.

    Of a calibration error of this package, and of a `reliability`, the lower bound is above 0 only
    if calibrated answers would rarely show so large an error: in no more than (1 - level) / 2 of
    draws of the truth from the probabilities (Bröcker and Smith, 2007).
    """
    check(level, resamples, seed)
    tables = [_rows(table) for table in samples]
    if len({len(table) for table in tables}) != 1:
        raise NescioError("all arrays must have one row per sample, and as many samples")

    def value(*drawn: NDArray[Any]) -> float:
        result = metric(*drawn, **options)
        return float(result if part is None else getattr(result, part))

    whole, size = value(*tables), len(tables[0])
    drawn = draws(size, resamples, seed, IN_DIST, block=size)
    again = np.array([value(*(t[rows] for t in tables)) for block in drawn for rows in block])
    center = float(again.mean()) if unbiased else whole
    gaps = percentiles(whole, again - center, level)
    low, high = whole - gaps.high, whole - gaps.low
    if low > 0 and (metric in ERRORS or part == "reliability"):
        probs, rng = tables[0], stream_of(seed, CHANCE)
        count = max(resamples, math.ceil(2 / (1 - level)))
        by_chance = (value(probs, _truth(probs, rng)) for _ in range(count))
        if not _rare((other >= whole for other in by_chance), (1 - level) / 2 * (count + 1)):
            low, high = 0.0, max(0.0, high)
    return Interval(whole, low, high)


def _rare(larger: Iterable[bool], most: float) -> bool:
    """Whether at most `most` are true, counting the data as one; it stops where it knows."""
    return all(count <= most for count in accumulate(larger, initial=1))


def _truth(probs: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Right or wrong by confidences `(N,)`, or labels by probabilities `(N, C)`."""
    chance = rng.random(len(probs))
    if probs.ndim == 1:
        return chance < probs
    labels = np.empty(len(probs), dtype=np.int64)
    for start in range(0, len(probs), BLOCK):
        upto = probs[start : start + BLOCK].astype(np.float64).cumsum(1)
        below = upto <= chance[start : start + BLOCK, None] * upto[:, -1:]
        labels[start : start + BLOCK] = below.sum(1)
    return labels


def _rows(table: Numbers) -> NDArray[Any]:
    array = from_torch(table) if isinstance(table, Tensor) else np.asarray(table)
    if array.ndim < 1 or len(array) == 0:
        raise NescioError(f"expected arrays with one row per sample, got shape {array.shape}")
    return array
