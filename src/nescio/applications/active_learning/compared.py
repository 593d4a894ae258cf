"""Learning curves of several acquisitions side by side: labels to an accuracy, error at the end."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nescio.applications.active_learning.curves import Curves
from nescio.core import DataSet, NescioError, Results, Row, unknown
from nescio.metrics import t_interval, t_test

DATA = "test data"


def compared(
    curves: Mapping[str, Curves],
    *,
    accuracy: float = 0.95,
    against: str | None = None,
    level: float = 0.95,
) -> Results:
    """A table of curves by name: the labels to an accuracy, and the error rate at the end.

    The end is the largest number of labels that all of them have. Labels are medians over the seeds
    with a bootstrap interval, error rates means with Student's.

    curves: learning curves by name.
    accuracy: accuracy to reach.
    against: one of the names, such as "random"; the others are compared with it seed by seed, which
      needs the same seeds with the same start. None: no comparison.
    level: confidence level of the interval.
    """
    if not curves:
        raise NescioError('there are no curves to compare; give them by name: {"bald": curves}')
    if against is not None and against not in curves:
        raise NescioError(unknown("curve", against, curves))
    end = _last(curves)
    rows = [row for name in curves for row in _alone(name, curves[name], accuracy, end, level)]
    if against is not None:
        others = [name for name in curves if name != against]
        for name in others:
            _check_paired(name, curves[name], against, curves[against])
            rows += _paired(name, curves[name], against, curves[against], (accuracy, end), level)
    about: dict[str, Any] = {
        "accuracy": accuracy,
        "labels": end,
        "against": against,
        "level": level,
        "by_seed": {name: _by_seed(one, accuracy, end) for name, one in curves.items()},
        "notes": _notes(curves, accuracy, end, against, level),
    }
    return Results(tuple(rows), (DataSet(name=DATA, kind="test"),), about)


def _last(curves: Mapping[str, Curves]) -> int:
    common = set.intersection(*(set(one.labels.tolist()) for one in curves.values()))
    if not common:
        raise NescioError("the curves have no number of labels in common; simulate the same steps")
    return int(max(common))


def _alone(name: str, one: Curves, accuracy: float, end: int, level: float) -> list[Row]:
    found = one.labels_to(accuracy, level=level)
    missing = int(np.isinf(found.by_seed).sum())
    note = f"{missing} of {len(one.seeds)} seeds never" if missing else ""
    error = t_interval(one.error_at(end), level=level)
    return [
        _row(name, _labels_metric(accuracy), found.median, found.low, found.high, note=note),
        _row(name, _error_metric(end), error.value, max(0.0, error.low), error.high),
    ]


def _paired(
    name: str, one: Curves, against: str, two: Curves, what: tuple[float, int], level: float
) -> list[Row]:
    accuracy, end = what
    first, second = (each.labels_to(accuracy, level=level).by_seed for each in (one, two))
    both = np.isfinite(first) & np.isfinite(second)
    labels = t_test(first[both], second[both], level=level) if both.all() else None
    error = t_test(one.error_at(end), two.error_at(end), level=level)
    gap = f"less {against}"
    rows = [_row(name, f"{_error_metric(end)} {gap}", error.value, error.low, error.high)]
    if labels is None:
        note = f"{int((~both).sum())} of {len(both)} seeds never"
        return [_row(name, f"{_labels_metric(accuracy)} {gap}", None, None, None, note=note), *rows]
    metric = f"{_labels_metric(accuracy)} {gap}"
    return [_row(name, metric, labels.value, labels.low, labels.high), *rows]


def _row(
    name: str,
    metric: str,
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    note: str = "",
) -> Row:
    value, low, high = (None if n is None or not np.isfinite(n) else n for n in (value, low, high))
    low = low if high is not None else None  # an interval without an end is not shown
    return Row(subject=name, data=DATA, metric=metric, value=value, low=low, high=high, note=note)


def _labels_metric(accuracy: float) -> str:
    return f"labels to {100 * accuracy:g} %"


def _error_metric(end: int) -> str:
    return f"error at {end}"


def _check_paired(name: str, one: Curves, against: str, two: Curves) -> None:
    start = int(np.isnan(one.scores).all(0).sum()), int(np.isnan(two.scores).all(0).sum())
    same = one.seeds == two.seeds and start[0] == start[1]
    same &= all(one.settings.get(name) == two.settings.get(name) for name in ("pool", "test"))
    if not same or not np.array_equal(one.acquired[:, : start[0]], two.acquired[:, : start[1]]):
        raise NescioError(
            f"{name} and {against} do not have the same seeds with the same start, pool and test "
            "data, so they cannot be compared seed by seed; simulate both with the same"
        )


def _by_seed(one: Curves, accuracy: float, end: int) -> dict[str, Any]:
    found = one.labels_to(accuracy).by_seed
    labels = [None if np.isinf(count) else int(count) for count in found]
    return {"seeds": list(one.seeds), "labels": labels, "error": one.error_at(end).tolist()}


def _notes(
    curves: Mapping[str, Curves], accuracy: float, end: int, against: str | None, level: float
) -> list[str]:
    counts = sorted({len(one.seeds) for one in curves.values()})
    seeds = " or ".join(map(str, counts))
    share = f"{100 * level:g} %"
    notes = [
        f"Of {seeds} seeds: the median number of labels in the first step with {100 * accuracy:g} "
        f"% accuracy ({share} bootstrap interval over the seeds), and the mean error rate at {end} "
        f"labels ({share} interval of Student's t)."
    ]
    if against is not None:
        notes.append(
            f"Less {against}: the mean difference seed by seed, with Student's paired interval; "
            "below 0 is better. There is none where a seed never reached the accuracy."
        )
    return notes
