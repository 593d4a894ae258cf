"""Percentile bootstrap intervals: cases drawn again with replacement (Efron, 1979).

One sort serves all resamples: a resample is how often each sorted score was drawn, and the ranking
metrics are sums over those counts. Resamples come in blocks, so memory is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.metrics.ranking import Positive, Ranking, _least, rank

INSIDE, OUTSIDE = 0, 1  # streams of a seed: the two sides share no draws
BLOCK = 1 << 16  # draws at a time: the counts stay in the cache

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A number of all cases, and bounds that hold it in a given share of the resamples."""

    value: float
    low: float
    high: float


def bootstrap_mean(
    values: Numbers, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """The mean of one number a case, with its interval: confidence, error (0 or 1), Brier, NLL.

    Where all cases agree, the interval is one point: no resample can differ.
    """
    _check(level, resamples, seed)
    cases = numbers("values", values, axes=1).astype(np.float64)
    if not np.all(np.isfinite(cases)):
        raise NescioError("`values` holds NaN or infinity, which has no mean; repair those cases")
    step = max(1, BLOCK // len(cases))
    means = [cases[drawn].mean(axis=1) for drawn in _draws(len(cases), resamples, step, seed, 0)]
    return _interval(float(cases.mean()), np.concatenate(means), level)


def bootstrap_ranking(
    inside: Numbers,
    outside: Numbers,
    *,
    tpr: float = 0.95,
    positive: Positive = "outside",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """AUROC, AUPR and FPR at a TPR with their intervals, by the names of their functions.

    Both sides are drawn again, each by itself. `tpr` and `positive` are those of `fpr_at_tpr`.
    Where the sides do not overlap, the interval is one point: no resample can differ.
    """
    _check(level, resamples, seed)
    ranking = rank(inside, outside)
    values = [ranking.auroc, ranking.aupr, ranking.fpr_at_tpr(tpr, positive)]
    found = np.concatenate(list(_resampled(ranking, tpr, positive, resamples, seed)), axis=1)
    return {
        name: _interval(value, numbers, level)
        for name, value, numbers in zip(("auroc", "aupr", "fpr_at_tpr"), values, found, strict=True)
    }


def _resampled(
    ranking: Ranking, tpr: float, positive: Positive, resamples: int, seed: int
) -> Iterator[Floats]:
    """AUROC, AUPR and FPR of some resamples after another, (3, R) each."""
    inside, outside = ranking.inside, ranking.outside
    cases, others = len(inside), len(outside)
    left, right = (np.searchsorted(inside, outside, side) for side in ("left", "right"))
    first = np.searchsorted(outside, outside, "left")  # of the scores that are equal
    accepted = np.searchsorted(outside, inside, "right")
    step = max(1, BLOCK // max(cases, others))
    for drawn, drawn_others in zip(
        _draws(cases, resamples, step, seed, INSIDE),
        _draws(others, resamples, step, seed, OUTSIDE),
        strict=True,
    ):
        before, found = _before(drawn), _before(drawn_others)  # draws of smaller scores
        counts = np.diff(found)
        below = before[:, left]
        areas = np.einsum("rn,rn->r", counts, below + before[:, right]) / (2 * cases * others)
        true, false = others - found[:, first], cases - below  # at or above each outside score
        precision = np.einsum("rn,rn->r", counts, true / np.maximum(true + false, 1)) / others
        if positive == "inside":  # the first score that accepts enough
            place = (before[:, 1:] < _least(tpr, cases)).sum(1)
            rates = _at(found, accepted[place]) / others
        else:  # the last score that catches enough
            place = (others - found[:, :-1] >= _least(tpr, others)).sum(1) - 1
            rates = _at(false, place) / cases
        yield np.stack([areas, precision, rates])


def _before(drawn: NDArray[np.int32]) -> Counts:
    """Rows of drawn places to how many draws came before each place, (R, N + 1)."""
    rows, size = drawn.shape
    flat = drawn + size * np.arange(rows, dtype=np.int64)[:, None]
    counts = np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size)
    return np.pad(counts.cumsum(1), ((0, 0), (1, 0)))


def _at(table: Counts, columns: Counts) -> Counts:
    """One entry of each row."""
    return np.take_along_axis(table, columns[:, None], axis=1)[:, 0]


def _draws(
    cases: int, resamples: int, step: int, seed: int, stream: int
) -> Iterator[NDArray[np.int32]]:
    """Indices (R, cases) of `step` resamples at a time; the same draws for every step."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))
    for start in range(0, resamples, step):
        yield rng.integers(cases, size=(min(step, resamples - start), cases), dtype=np.int32)


def _interval(value: float, resampled: Floats, level: float) -> Interval:
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def _check(level: float, resamples: int, seed: int) -> None:
    if not 0 < level < 1:
        raise NescioError(f"`level` must be between 0 and 1, got {level}; 0.95 is usual")
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 2:
        raise NescioError(f"`resamples` must be a whole number from 2 up, got {resamples!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise NescioError(f"`seed` must be a whole number from 0 up, got {seed!r}")
