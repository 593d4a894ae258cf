"""Bootstrap intervals of the metrics of a regression: samples are drawn again, with all targets.

What a metric needs of a sample is computed once; a resample is a weighted mean of it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import Counts, Floats, Regression
from nescio.metrics.quantile_calibration import pit, weighted_areas
from nescio.metrics.regression import (
    crps_values,
    interval_values,
    means_and_targets,
    moment_matched,
    said_and_targets,
)
from nescio.metrics.resampling import (
    CHANCE,
    IN_DIST,
    Interval,
    check,
    check_names,
    counts_of,
    draws,
    percentiles,
    stream_of,
)

ERROR = "quantile_calibration_error"


def bootstrap_regression(
    prediction: Regression | Any,
    targets: Any,
    *,
    of: Sequence[str] = ("rmse", "mae", "crps", "mixture_nll", ERROR),
    miscoverage: float = 0.1,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Metrics of a regression with their intervals, by the names of their functions.

    Percentiles of the resamples. `quantile_calibration_error` is too large by chance, and that of a
    resample once more, so it gets the basic interval; its lower bound is above 0 only if calibrated
    predictions would have so large an error in at most (1 - level) / 2 of draws.

    prediction: a regression, such as `nescio.Gaussian`; means are enough for `rmse` and `mae`.
    targets: true targets, `(N,)` or `(N, D)`.
    of: names of metrics; also `moment_matched_nll`, `sharpness`, and `coverage` and
      `interval_score` of the prediction's own central intervals.
    miscoverage: share of targets that these central intervals should miss.
    level: confidence level of the interval.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    """
    check(level, resamples, seed)
    check_names(of, STATISTICS, "metric of a regression")
    options = {"miscoverage": miscoverage}
    tables = {name: STATISTICS[name](prediction, targets, options) for name in of}
    size = len(next(iter(tables.values()))) if tables else 0
    again: dict[str, list[Floats]] = {name: [] for name in of}
    for drawn in draws(size, resamples, seed, IN_DIST, block=size) if tables else ():
        counts = counts_of(drawn)
        for name, table in tables.items():
            again[name].append(_resampled(name, table, counts))
    found = {}
    for name, table in tables.items():
        whole = float(_resampled(name, table, np.ones((1, size), dtype=np.int64))[0])
        others = np.concatenate(again[name])
        finish = _of_error if name == ERROR else percentiles
        found[name] = finish(whole, others, level)
        if name == ERROR and found[name].low > 0 and not _beyond_chance(whole, size, level, seed):
            found[name] = Interval(whole, 0.0, found[name].high)
    return found


def _resampled(name: str, table: Floats, counts: Counts) -> Floats:
    """The metric of each resample `(R,)`, from what it needs of the samples `(N, D)`."""
    if name == ERROR:
        return np.asarray(weighted_areas(table, counts).mean(1))
    means = counts @ table / len(table)
    return np.asarray((np.sqrt(means) if name in ROOTS else means).mean(1))


def _of_error(value: float, again: Floats, level: float) -> Interval:
    ends = percentiles(value, again, level)
    return Interval(value, max(0.0, 2 * value - ends.high), max(0.0, 2 * value - ends.low))


def _beyond_chance(value: float, samples: int, level: float, seed: int) -> bool:
    """Whether calibrated predictions rarely have so large an error.

    One column: errors of targets that agree vary more than those of separate ones.
    """
    count, rng = math.ceil(10 / (1 - level)), stream_of(seed, CHANCE)
    ones = np.ones((1, samples), dtype=np.int64)
    by_chance = [weighted_areas(rng.random((samples, 1)), ones)[0, 0] for _ in range(count)]
    larger = 1 + int((np.array(by_chance) >= value).sum())
    return larger <= (1 - level) / 2 * (count + 1)


def _errors(power: int) -> Callable[..., Floats]:
    def values(prediction: Any, targets: Any, _: Any) -> Floats:
        means, y = means_and_targets(prediction, targets)
        return _array((means - y).abs() ** power)

    return values


def _nll(prediction: Any, targets: Any, _: Any) -> Floats:
    said, y = said_and_targets(prediction, targets)
    return _array(-said.log_prob(y)[:, None])


def _variance(prediction: Any, targets: Any, _: Any) -> Floats:
    return _array(said_and_targets(prediction, targets)[0].mixture_variance)


def _central(prediction: Any, targets: Any, miscoverage: float) -> tuple[Tensor, Tensor, Tensor]:
    said, y = said_and_targets(prediction, targets)
    return said.quantile(miscoverage / 2), said.quantile(1 - miscoverage / 2), y


def _held(prediction: Any, targets: Any, options: Any) -> Floats:
    low, high, y = _central(prediction, targets, **options)
    return _array(((low <= y) & (y <= high)).double())


def _scores(prediction: Any, targets: Any, options: Any) -> Floats:
    return _array(interval_values(*_central(prediction, targets, **options), **options))


def _array(values: Tensor) -> Floats:
    return np.asarray(values.to(torch.float64).cpu().numpy())


ROOTS = ("rmse", "sharpness")
STATISTICS: dict[str, Callable[..., Floats]] = {
    "rmse": _errors(2),
    "mae": _errors(1),
    "crps": lambda prediction, targets, _: _array(crps_values(prediction, targets)),
    "mixture_nll": _nll,
    "moment_matched_nll": lambda prediction, *rest: _nll(moment_matched(prediction), *rest),
    "sharpness": _variance,
    ERROR: lambda prediction, targets, _: pit(prediction, targets),
    "coverage": _held,
    "interval_score": _scores,
}
