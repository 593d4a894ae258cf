"""Bootstrap intervals of any number of the cases: calibration errors, parts of a score."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers
from nescio.metrics.intervals import Interval, percentiles
from nescio.metrics.resampling import INSIDE, check, draws


def bootstrap_metric(
    metric: Callable[..., Any],
    *cases: Numbers,
    part: str | None = None,
    unbiased: bool = False,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
    **options: Any,
) -> Interval:
    """A metric of the cases with its interval, the cases drawn again with replacement.

    cases: arrays with one row a case, as `metric` takes them.
    part: of what the metric returns, such as `reliability` of a decomposition.
    unbiased: for a metric that takes its own bias off, such as `debiased_ece`.
    options: of the metric, such as `bins`.

    The basic interval: a calibration error of few cases is too large by chance, one of a resample
    by that once more, and the interval takes this off. An unbiased metric keeps its place: its
    resamples are moved so that their mean is its value. A bound may lie below 0: then 0 is not
    excluded.
    """
    check(level, resamples, seed)
    tables = [_rows(table) for table in cases]
    if len({len(table) for table in tables}) != 1:
        raise NescioError("all arrays must have one row a case, and as many cases")

    def value(rows: Any) -> float:
        found = metric(*(table[rows] for table in tables), **options)
        return float(found if part is None else getattr(found, part))

    whole = value(slice(None))
    size = len(tables[0])
    drawn = draws(size, resamples, seed, INSIDE, block=size)
    again = np.array([value(rows) for block in drawn for rows in block])
    centre = float(again.mean()) if unbiased else whole
    found = percentiles(whole, again - centre, level)
    return Interval(whole, whole - found.high, whole - found.low)


def _rows(table: Numbers) -> Any:
    array = table.detach().cpu().numpy() if hasattr(table, "detach") else np.asarray(table)
    if array.ndim < 1 or len(array) == 0:
        raise NescioError(f"expected arrays with one row a case, got shape {array.shape}")
    return array
