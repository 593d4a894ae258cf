"""Percentile bootstrap intervals (Efron, 1979) of means and ranking metrics, and exact bounds.

One sort serves all resamples, and they come in blocks, so memory is bounded.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import (
    Counts,
    Floats,
    NescioError,
    Numbers,
    check_level,
    is_whole,
    numbers,
    unknown,
)
from nescio.metrics.ranking import Positive, Ranking, is_ood, least_count, rank

IN_DIST, OOD, CHANCE = 0, 1, 2  # streams of a seed: they share no draws
BLOCK = 1 << 16  # draws at a time: the counts stay in the cache
ROUNDING = 1e-12  # metrics that differ by less are equal


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of the sorted scores of a ranking among each other, computed once."""

    ranking: Ranking

    @cached_property
    def below(self) -> Counts:
        """In-distribution scores below each OOD score."""
        return np.searchsorted(self.ranking.in_dist, self.ranking.ood, "left")

    @cached_property
    def upto(self) -> Counts:
        """In-distribution scores below or equal to each OOD score."""
        return np.searchsorted(self.ranking.in_dist, self.ranking.ood, "right")

    @cached_property
    def first(self) -> Counts:
        """The first OOD score that equals each of them."""
        return np.searchsorted(self.ranking.ood, self.ranking.ood, "left")

    @cached_property
    def sides(self) -> tuple[Floats, Floats]:
        """Both sides in float64."""
        return self.ranking.in_dist.astype(np.float64), self.ranking.ood.astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Resamples:
    """Some resamples of one ranking: how often each of its sorted scores was drawn."""

    ranks: Ranks
    in_dist: Counts  # (R, N)
    ood: Counts  # (R, M)
    tpr: float

    @cached_property
    def in_dist_before(self) -> Counts:
        """Draws before each index, (R, N + 1)."""
        return _cumulated(self.in_dist)

    @cached_property
    def ood_before(self) -> Counts:
        """Draws before each index, (R, M + 1)."""
        return _cumulated(self.ood)

    @cached_property
    def true(self) -> Counts:
        """OOD draws at or above each OOD score, (R, M)."""
        return self.sizes[1] - self.ood_before[:, self.ranks.first]

    @cached_property
    def false(self) -> Counts:
        """In-distribution draws at or above each OOD score, (R, M)."""
        return self.sizes[0] - self.in_dist_before[:, self.ranks.below]

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of in-distribution and OOD samples of a resample."""
        return len(self.ranks.ranking.in_dist), len(self.ranks.ranking.ood)


def _auroc(drawn: Resamples) -> Floats:
    before, ranks = drawn.in_dist_before, drawn.ranks
    ordered = before[:, ranks.below] + before[:, ranks.upto]
    return np.asarray(np.einsum("rn,rn->r", drawn.ood, ordered) / (2 * math.prod(drawn.sizes)))


def _aupr(drawn: Resamples) -> Floats:
    precision = drawn.true / np.maximum(drawn.true + drawn.false, 1)
    return np.asarray(np.einsum("rn,rn->r", drawn.ood, precision) / drawn.sizes[1])


def _fpr_at_tpr(drawn: Resamples) -> Floats:
    samples, others = drawn.sizes
    caught = others - drawn.ood_before[:, :-1] >= least_count(drawn.tpr, others)
    last = caught.sum(1) - 1  # the last score that catches enough
    return np.asarray(np.take_along_axis(drawn.false, last[:, None], axis=1)[:, 0] / samples)


def _detection_error(drawn: Resamples) -> Floats:
    samples, others = drawn.sizes
    gain = (samples * drawn.true - others * drawn.false).max(1)
    return np.asarray((samples * others - gain) / (2 * samples * others))


def _autc(drawn: Resamples) -> Floats:
    """On the scale of all samples: what is largest of them says nothing of what could be."""
    sides = list(zip(drawn.ranks.sides, (drawn.in_dist, drawn.ood), strict=True))
    low, high = min(side[0] for side, _ in sides), max(side[-1] for side, _ in sides)
    accepted, flagged = (
        np.einsum("rn,n->r", counts, scores) / len(scores) for scores, counts in sides
    )
    return np.asarray((1 - (flagged - accepted) / ((high - low) or 1.0)) / 2)


STATISTICS: dict[str, Callable[[Resamples], Floats]] = {
    "auroc": _auroc,
    "aupr": _aupr,
    "fpr_at_tpr": _fpr_at_tpr,
    "detection_error": _detection_error,
    "autc": _autc,
}
LARGER = frozenset({"auroc", "aupr"})  # is better; of the others, smaller is


@dataclass(frozen=True)
class Question:
    """Which metrics, in which sense."""

    of: Sequence[str]
    tpr: float
    positive: Positive

    def __post_init__(self) -> None:
        check_names(self.of, STATISTICS, "ranking metric")
        is_ood(self.positive)
        least_count(self.tpr, 1)

    def of_all(self, ranking: Ranking) -> list[float]:
        """The metrics of all samples."""
        turned = self._turned(ranking)
        return [
            turned.fpr_at_tpr(self.tpr) if name == "fpr_at_tpr" else getattr(turned, name)
            for name in self.of
        ]

    def ranks(self, ranking: Ranking) -> Ranks:
        """What the resamples of a ranking share."""
        return Ranks(self._turned(ranking))

    def of_resamples(self, ranks: Ranks, in_dist: Counts, ood: Counts) -> Floats:
        """The metrics of resamples, from how often each sorted score was drawn: (names, R)."""
        if not is_ood(self.positive):
            in_dist, ood = ood[:, ::-1], in_dist[:, ::-1]
        drawn = Resamples(ranks=ranks, in_dist=in_dist, ood=ood, tpr=self.tpr)
        return np.stack([STATISTICS[name](drawn) for name in self.of])

    def _turned(self, ranking: Ranking) -> Ranking:
        return ranking if is_ood(self.positive) else ranking.mirrored


def ask(of: Sequence[str], tpr: float, positive: Positive) -> Question:
    """A checked question about one or more metrics."""
    return Question(of if isinstance(of, str) else tuple(of), tpr, positive)


def check_names(of: Sequence[str], known: Iterable[str], kind: str) -> None:
    """Refuse what is not a list of names of metrics."""
    if isinstance(of, str) or len(of) == 0:
        raise NescioError(f"`of` must be a list of names of metrics, got {of!r}")
    for name in of:
        if name not in known:
            raise NescioError(unknown(kind, name, known))


def counted(sizes: tuple[int, int], resamples: int, seed: int) -> Iterator[tuple[Counts, Counts]]:
    """How often each in-distribution and OOD sample is drawn, (R, N) and (R, M), in blocks."""
    streams = (
        draws(size, resamples, seed, stream, block=max(sizes))
        for size, stream in zip(sizes, (IN_DIST, OOD), strict=True)
    )
    for in_dist, ood in zip(*streams, strict=True):
        yield counts_of(in_dist), counts_of(ood)


def draws(
    samples: int, resamples: int, seed: int, stream: int, *, block: int
) -> Iterator[NDArray[np.int32]]:
    """Indices (R, samples) of resamples that suit `block` samples; the same for every block."""
    rng = stream_of(seed, stream)
    for rows in blocks_of(resamples, block):
        yield rng.integers(samples, size=(rows, samples), dtype=np.int32)


def blocks_of(resamples: int, samples: int) -> Iterator[int]:
    """How many resamples of so many samples to make at a time."""
    step = max(1, BLOCK // samples)
    for start in range(0, resamples, step):
        yield min(step, resamples - start)


def stream_of(seed: int, stream: int) -> np.random.Generator:
    """The numbers of one stream of a seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def check(level: float, resamples: int, seed: int) -> None:
    """Refuse options that no bootstrap can use."""
    check_level(level)
    if not is_whole(resamples, 2):
        raise NescioError(f"`resamples` must be a whole number from 2 up, got {resamples!r}")
    if not is_whole(seed, 0):
        raise NescioError(f"`seed` must be a whole number from 0 up, got {seed!r}")


def counts_of(drawn: NDArray[Any]) -> Counts:
    """How often each sample was drawn, (R, N), from indices (R, N)."""
    rows, size = drawn.shape
    flat = drawn + size * np.arange(rows, dtype=np.int64)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size)


def _cumulated(counts: Counts) -> Counts:
    return np.pad(counts.cumsum(1), ((0, 0), (1, 0)))


@dataclass(frozen=True)
class Interval:
    """A number of all samples, and the bounds about it.

    value: the number of all samples.
    low, high: lower and upper bound.
    """

    value: float
    low: float
    high: float


def bootstrap_mean(
    values: Numbers, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """The mean of one number per sample, with its interval: confidence, error (0 or 1), Brier, NLL.

    Where all samples agree, the interval is one point: no resample can differ.

    values: `(N,)`, or `(D, N)` of the same samples for D draws of the members, such as masks of MC
      dropout that all samples share. The first draw has the value; resamples take one draw after
      the other, so the interval holds the noise of the draws too.
    level: confidence level of the interval.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    """
    check(level, resamples, seed)
    table = numbers("values", values, axes=2 if np.ndim(values) > 1 else 1)
    table = np.atleast_2d(table).astype(np.float64)
    if not np.all(np.isfinite(table)):
        raise NescioError("`values` holds NaN or infinity, which has no mean; repair those samples")
    samples = table.shape[1]
    means: list[float] = []
    for block in draws(samples, resamples, seed, IN_DIST, block=samples):
        for rows in block:
            means.append(float(table[len(means) % len(table)][rows].mean()))
    return percentiles(float(table[0].mean()), np.array(means), level)


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

    Both sides are drawn again, each by itself; the bounds are percentiles of the resamples, but for
    the detection error, which is too small by chance: its interval is the basic one of the
    logarithm, joined with percentiles moved by twice their bias. Where the sides do not overlap,
    the interval of what the order alone decides is one point: no resample can differ.

    in_dist, ood: scores of the in-distribution samples, `(N,)`, and of the OOD samples, `(M,)`; a
      larger score is further out.
    of: names of ranking metrics; also `detection_error` and `autc`, the latter on the scale of
      these samples.
    tpr, positive: options of `fpr_at_tpr`; `positive` is also that of the other metrics.
    level: confidence level of the interval.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    """
    check(level, resamples, seed)
    question, ranking = ask(of, tpr, positive), rank(in_dist, ood)
    values, ranks = question.of_all(ranking), question.ranks(ranking)
    sizes = len(ranking.in_dist), len(ranking.ood)
    blocks = [question.of_resamples(ranks, *counts) for counts in counted(sizes, resamples, seed)]
    resampled = zip(question.of, values, np.concatenate(blocks, axis=1), strict=True)
    of_metric = {"detection_error": of_smallest}
    return {
        name: of_metric.get(name, percentiles)(value, each, level)
        for name, value, each in resampled
    }


def percentiles(value: float, resampled: Floats, level: float) -> Interval:
    """The bounds that hold a share `level` of the resamples, the rest split evenly."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def log_basic(value: float, result: Floats, level: float) -> Interval:
    """As far below and above the value, as a factor, as it is above and below the resamples.

    Resamples of 0 have no logarithm and are left out; a value of 0 has only such ones.
    """
    result = result[result > ROUNDING]
    if value <= ROUNDING or len(result) == 0:
        return Interval(value, value, value)
    ends = percentiles(value, result, level)
    return Interval(value, value**2 / ends.high, min(1.0, value**2 / ends.low))


def of_smallest(value: float, resampled: Floats, level: float) -> Interval:
    """Of the smallest error over thresholds, at most 1/2.

    It is too small by chance, and that of a resample once more. So: the basic interval of the
    logarithm, joined with the percentiles moved by twice their bias.
    """
    logs, ends = log_basic(value, resampled, level), percentiles(value, resampled, level)
    moved = 2 * (value - float(resampled.mean()))
    high = min(0.5, max(value, logs.high, ends.high + moved))  # `value`: rounding aside
    return Interval(value, max(0.0, min(value, logs.low, ends.low + moved)), high)


def upper_bound(successes: Any, samples: Any, confidence: float) -> Floats:
    """The rate is at most this (Clopper and Pearson, 1934): 1 where there are no samples.

    successes, samples: counts, numbers or arrays.
    confidence: the probability with which the bound holds.
    """
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
