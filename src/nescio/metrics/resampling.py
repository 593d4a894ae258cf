"""Ranking metrics of many resamples at once: sums over how often each sorted score was drawn.

One sort serves all resamples, and they come in blocks, so memory is bounded.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, unknown
from nescio.metrics.ranking import Positive, Ranking, is_ood, least_count

IN_DIST, OOD, CHANCE = 0, 1, 2  # streams of a seed: they share no draws
BLOCK = 1 << 16  # draws at a time: the counts stay in the cache

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Places:
    """Where the sorted scores of a ranking stand among each other, found once."""

    ranking: Ranking

    @cached_property
    def below(self) -> Counts:
        """Inside scores below each outside score."""
        return np.searchsorted(self.ranking.in_dist, self.ranking.ood, "left")

    @cached_property
    def upto(self) -> Counts:
        """Inside scores below or equal to each outside score."""
        return np.searchsorted(self.ranking.in_dist, self.ranking.ood, "right")

    @cached_property
    def first(self) -> Counts:
        """The first outside score that equals each of them."""
        return np.searchsorted(self.ranking.ood, self.ranking.ood, "left")

    @cached_property
    def sides(self) -> tuple[Floats, Floats]:
        """Both sides in float64."""
        return self.ranking.in_dist.astype(np.float64), self.ranking.ood.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Resamples:
    """Some resamples of one ranking: how often each of its sorted scores was drawn."""

    places: Places
    in_dist: Counts  # (R, N)
    ood: Counts  # (R, M)
    tpr: float

    @cached_property
    def in_dist_before(self) -> Counts:
        """Draws before each place, (R, N + 1)."""
        return _cumulated(self.in_dist)

    @cached_property
    def ood_before(self) -> Counts:
        """Draws before each place, (R, M + 1)."""
        return _cumulated(self.ood)

    @cached_property
    def true(self) -> Counts:
        """Outside draws at or above each outside score, (R, M)."""
        return self.sizes[1] - self.ood_before[:, self.places.first]

    @cached_property
    def false(self) -> Counts:
        """Inside draws at or above each outside score, (R, M)."""
        return self.sizes[0] - self.in_dist_before[:, self.places.below]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many inside and outside samples a resample has."""
        return len(self.places.ranking.in_dist), len(self.places.ranking.ood)


def _auroc(drawn: Resamples) -> Floats:
    before, places = drawn.in_dist_before, drawn.places
    ordered = before[:, places.below] + before[:, places.upto]
    areas: Floats = np.einsum("rn,rn->r", drawn.ood, ordered) / (2 * math.prod(drawn.sizes))
    return areas


def _aupr(drawn: Resamples) -> Floats:
    precision = drawn.true / np.maximum(drawn.true + drawn.false, 1)
    areas: Floats = np.einsum("rn,rn->r", drawn.ood, precision) / drawn.sizes[1]
    return areas


def _fpr_at_tpr(drawn: Resamples) -> Floats:
    samples, others = drawn.sizes
    caught = others - drawn.ood_before[:, :-1] >= least_count(drawn.tpr, others)
    last = caught.sum(1) - 1  # the last score that catches enough
    rates: Floats = np.take_along_axis(drawn.false, last[:, None], axis=1)[:, 0] / samples
    return rates


def _detection_error(drawn: Resamples) -> Floats:
    samples, others = drawn.sizes
    gain = (samples * drawn.true - others * drawn.false).max(1)
    errors: Floats = (samples * others - gain) / (2 * samples * others)
    return errors


def _autc(drawn: Resamples) -> Floats:
    sides = list(zip(drawn.places.sides, (drawn.in_dist, drawn.ood), strict=True))
    low = np.min([scores[(counts > 0).argmax(1)] for scores, counts in sides], axis=0)
    last = [counts.shape[1] - 1 - (counts[:, ::-1] > 0).argmax(1) for _, counts in sides]
    high = np.max([scores[place] for (scores, _), place in zip(sides, last, strict=True)], axis=0)
    kept, flagged = (np.einsum("rn,n->r", counts, scores) / len(scores) for scores, counts in sides)
    span = high - low
    apart = np.divide(flagged - kept, span, out=np.zeros_like(span), where=span > 0)
    areas: Floats = (1 - apart) / 2
    return areas


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

    of: tuple[str, ...]
    tpr: float
    positive: Positive

    def __post_init__(self) -> None:
        for name in self.of:
            if name not in STATISTICS:
                raise NescioError(unknown("ranking metric", name, STATISTICS))
        is_ood(self.positive)
        least_count(self.tpr, 1)

    def of_all(self, ranking: Ranking) -> list[float]:
        """The metrics of all samples."""
        turned = self._turned(ranking)
        return [
            turned.fpr_at_tpr(self.tpr) if name == "fpr_at_tpr" else getattr(turned, name)
            for name in self.of
        ]

    def places(self, ranking: Ranking) -> Places:
        """What the resamples of a ranking share."""
        return Places(self._turned(ranking))

    def of_resamples(self, places: Places, in_dist: Counts, ood: Counts) -> Floats:
        """The metrics of resamples that drew the sorted scores so often, (names, R)."""
        if not is_ood(self.positive):
            in_dist, ood = ood[:, ::-1], in_dist[:, ::-1]
        drawn = Resamples(places, in_dist, ood, self.tpr)
        return np.stack([STATISTICS[name](drawn) for name in self.of])

    def _turned(self, ranking: Ranking) -> Ranking:
        return ranking if is_ood(self.positive) else ranking.mirrored


def ask(of: Sequence[str], tpr: float, positive: Positive) -> Question:
    """A checked question about one or more metrics."""
    if isinstance(of, str) or len(of) == 0:
        raise NescioError(f"`of` must be a list of names of metrics, got {of!r}")
    return Question(tuple(of), tpr, positive)


def counted(sizes: tuple[int, int], resamples: int, seed: int) -> Iterator[tuple[Counts, Counts]]:
    """How often each inside and outside case is drawn, (R, N) and (R, M), in blocks."""
    streams = (
        draws(size, resamples, seed, stream, block=max(sizes))
        for size, stream in zip(sizes, (IN_DIST, OOD), strict=True)
    )
    for in_dist, ood in zip(*streams, strict=True):
        yield _counts(in_dist), _counts(ood)


def draws(
    samples: int, resamples: int, seed: int, stream: int, *, block: int
) -> Iterator[NDArray[np.int32]]:
    """Indices (R, samples) of resamples that suit `block` samples; the same for every block."""
    step = max(1, BLOCK // block)
    rng = stream_of(seed, stream)
    for start in range(0, resamples, step):
        yield rng.integers(samples, size=(min(step, resamples - start), samples), dtype=np.int32)


def stream_of(seed: int, stream: int) -> np.random.Generator:
    """The numbers of one stream of a seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def check(level: float, resamples: int, seed: int) -> None:
    """Refuse options that no bootstrap can use."""
    check_level(level)
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 2:
        raise NescioError(f"`resamples` must be a whole number from 2 up, got {resamples!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise NescioError(f"`seed` must be a whole number from 0 up, got {seed!r}")


def check_level(level: float) -> None:
    """Refuse a level that is no share."""
    if not 0 < level < 1:
        raise NescioError(f"`level` must be between 0 and 1, got {level}; 0.95 is usual")


def _counts(drawn: NDArray[np.int32]) -> Counts:
    rows, size = drawn.shape
    flat = drawn + size * np.arange(rows, dtype=np.int64)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size)


def _cumulated(counts: Counts) -> Counts:
    return np.pad(counts.cumsum(1), ((0, 0), (1, 0)))
