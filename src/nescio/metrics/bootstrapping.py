"""Bootstrap intervals of any number of the samples, and of what `selective` measures.

A resample draws samples with their errors, so the error rate varies too. One without an error, or
without a right answer, has no average precision and is drawn again. All scores share the draws.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Counts, Floats, NescioError, Numbers, from_torch, numbers
from nescio.metrics.aligned import counted_samples
from nescio.metrics.binning import ece
from nescio.metrics.calibration_errors import classwise_ece, debiased_ece, mce, smooth_ece
from nescio.metrics.paired import Difference, resampled_difference, resampled_differences
from nescio.metrics.ranking import least_count
from nescio.metrics.resampling import (
    BLOCK,
    CHANCE,
    IN_DIST,
    Interval,
    blocks_of,
    check,
    check_names,
    counts_of,
    draws,
    log_basic,
    percentiles,
    stream_of,
)
from nescio.metrics.selective import STATISTICS, Tallies, grouped, mistaken, of_all

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

    The basic interval: a calibration error of few samples is too large by chance, one of a resample
    by that once more, and the interval takes this off. An unbiased metric keeps its value: its
    resamples are moved so that their mean is its value.

    The interval of a calibration error of this package, and of a `reliability`, has no end below 0.
    Its lower bound is above 0 only if calibrated answers would rarely show so large an error: in no
    more than (1 - level) / 2 of draws of the truth from the probabilities (Bröcker and Smith,
    2007). `debiased_ece` with `norm=1` is refused: what chance adds to a resample is not what it
    added to the samples, and intervals at 95 % held the truth in 71 to 84 % of simulations.

    metric: a function of the arrays that returns a number, such as `nescio.metrics.ece`.
    samples: arrays with one row per sample, as `metric` takes them. Of maps `(N, H, W)` whole
      images are drawn, of those with a label: the pixels of one depend on each other.
    part: attribute to take of what the metric returns, such as `"reliability"` of a decomposition;
      None: the metric returns the number itself.
    unbiased: whether the mean of the metric over samples is the truth.
    level: confidence level of the interval.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    options: options of the metric, such as `bins`.
    """
    check(level, resamples, seed)
    if metric is debiased_ece and options.get("norm", 1) == 1:
        raise NescioError(
            "there is no interval of debiased_ece with norm=1: resampling does not show its error; "
            "use ece or smooth_ece, whose intervals take off what chance adds, or norm=2"
        )
    tables = [_rows(table) for table in samples]
    if len({len(table) for table in tables}) != 1:
        raise NescioError("all arrays must have one row per sample, and as many samples")

    def value(*drawn: NDArray[Any]) -> float:
        result = metric(*drawn, **options)
        return float(result if part is None else getattr(result, part))

    whole = value(*tables)
    tables = _known_samples(tables, options.get("ignore_index"))
    size = len(tables[0])
    drawn = draws(size, resamples, seed, IN_DIST, block=size)
    again = np.array([value(*(t[rows] for t in tables)) for block in drawn for rows in block])
    center = float(again.mean()) if unbiased or metric is debiased_ece else whole
    gaps = percentiles(whole, again - center, level)
    low, high = whole - gaps.high, whole - gaps.low
    if metric not in ERRORS and part != "reliability":
        return Interval(whole, low, high)
    low, high = max(0.0, low), max(0.0, high)
    if low > 0:
        probs, rng = tables[0], stream_of(seed, CHANCE)
        count = max(resamples, math.ceil(2 / (1 - level)))
        known, ignored = tables[1], options.get("ignore_index")
        by_chance = (value(probs, _truth(probs, known, ignored, rng)) for _ in range(count))
        if not _rare((other >= whole for other in by_chance), (1 - level) / 2 * (count + 1)):
            low = 0.0
    return Interval(whole, low, high)


def metric_test(
    metric: Callable[..., Any],
    first: Sequence[Numbers],
    second: Sequence[Numbers],
    *,
    part: str | None = None,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
    **options: Any,
) -> Difference:
    """Does a metric differ between two networks on the same samples? These are drawn for both.

    p is twice the share of resamples on the other side of 0 (0 itself on both), counting the data
    as one more resample.

    >>> right, wrong = np.zeros(40, int), np.ones(40, int)
    >>> agrees = lambda labels, truth: float((labels == truth).mean())
    >>> metric_test(agrees, (right, right), (wrong, right)).value
    1.0

    metric: a function of the arrays that returns a number, such as `nescio.metrics.accuracy`.
    first, second: what `metric` takes of each, such as `(probs, labels)`, one row per sample. Of
      maps `(N, H, W)` whole images are drawn, of those with a label in both.
    part: attribute to take of what the metric returns; None: the metric returns the number itself.
    level: confidence level of the interval of the difference.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    options: options of the metric, such as `ignore_index`.
    """
    check(level, resamples, seed)
    sides = [[_rows(table) for table in side] for side in (first, second)]
    if len({len(table) for side in sides for table in side}) != 1:
        raise NescioError("all arrays of both networks must have one row per sample")
    ignored = options.get("ignore_index")
    known = np.logical_and(*(_has_label(side, ignored) for side in sides))
    if not known.any():
        raise NescioError("no sample has a label in both; all are ignored")
    sides = [[table if known.all() else table[known] for table in side] for side in sides]

    def values(rows: Any) -> list[float]:
        found = [metric(*(table[rows] for table in side), **options) for side in sides]
        return [float(one if part is None else getattr(one, part)) for one in found]

    size = int(known.sum())
    drawn = draws(size, resamples, seed, IN_DIST, block=size)
    again = np.array([values(rows) for block in drawn for rows in block]).T
    return resampled_difference(np.array(values(slice(None))), again, level)


def _rare(larger: Iterable[bool], most: float) -> bool:
    """Whether at most `most` are true, counting the data as one; it stops where it knows."""
    return all(count <= most for count in accumulate(larger, initial=1))


def _truth(
    probs: NDArray[Any], known: NDArray[Any], ignored: int | None, rng: np.random.Generator
) -> NDArray[Any]:
    """Right or wrong by confidences `(N, ...)`, or labels by probabilities `(N, ..., C)`.

    What is ignored in `known` stays so.
    """
    chance = rng.random(known.shape)
    drawn = chance < probs if probs.ndim == known.ndim else _labels(probs, chance)
    return drawn if ignored is None else np.where(known == ignored, ignored, drawn)


def _labels(probs: NDArray[Any], chance: Floats) -> Counts:
    labels = np.empty(chance.shape, dtype=np.int64)
    for start in range(0, len(probs), BLOCK):
        upto = probs[start : start + BLOCK].astype(np.float64).cumsum(-1)
        below = upto <= chance[start : start + BLOCK, ..., None] * upto[..., -1:]
        labels[start : start + BLOCK] = below.sum(-1)
    return labels


def _known_samples(tables: list[NDArray[Any]], ignored: int | None) -> list[NDArray[Any]]:
    """The samples with a label that counts: a draw of others alone would measure nothing."""
    known = _has_label(tables, ignored)
    return tables if known.all() else [table[known] for table in tables]


def _has_label(tables: Sequence[NDArray[Any]], ignored: int | None) -> NDArray[np.bool_]:
    """Which samples have a label that counts; the labels are the second array."""
    if ignored is None or len(tables) < 2:
        return np.ones(len(tables[0]), dtype=bool)
    found: NDArray[np.bool_] = (tables[1] != ignored).reshape(len(tables[1]), -1).any(1)
    return found


def _rows(table: Numbers) -> NDArray[Any]:
    array = from_torch(table) if isinstance(table, Tensor) else np.asarray(table)
    if array.ndim < 1 or len(array) == 0:
        raise NescioError(f"expected arrays with one row per sample, got shape {array.shape}")
    return array


ALL = tuple(STATISTICS)
LOSSES = ("aurc", "augrc", "excess_aurc")  # at least 0, and near it where errors are few
GAINS = ("auroc", "ap_success")  # at most 1, and near it


def bootstrap_selective(
    score: Numbers,
    wrong: Numbers,
    *,
    of: Sequence[str] = ALL,
    tpr: float = 0.95,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    ignore_index: int | None = None,
) -> dict[str, Interval]:
    """AP of errors and successes, AUROC, FPR, AURC and excess AURC with intervals.

    Percentiles of the resamples; but where few errors make these flatter (AURC and its excess, and
    what AUROC and AP of successes lack of 1), the basic interval of the logarithm. Of maps `(N, H,
    W)` whole images are drawn, of those with a label: the pixels of one depend on each other.

    score: failure score of each sample, `(N,)`, or `(N, H, W)` of maps; a larger score is less
      confident.
    wrong: whether each answer is an error, of the same shape.
    of: names among `ap_error`, `ap_success`, `auroc`, `fpr_at_tpr`, `aurc`, `augrc`, `excess_aurc`;
      by default all.
    tpr: share of correct answers to accept; `fpr_at_tpr` is the share of errors accepted there.
    level: confidence level of the interval.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    options: Any = {"tpr": tpr, "level": level, "resamples": resamples, "seed": seed}
    options["ignore_index"] = ignore_index
    (values,), (again,) = resampled({"": score}, wrong, of=of, **options)
    each = zip(of, values.tolist(), again, strict=True)
    return {name: interval(name, value, result, level) for name, value, result in each}


def interval(name: str, value: float, result: Floats, level: float) -> Interval:
    """The interval of a metric from its resamples."""
    if name in GAINS:
        lost = log_basic(1 - value, 1 - result, level)
        return Interval(value, 1 - lost.high, 1 - lost.low)
    return (log_basic if name in LOSSES else percentiles)(value, result, level)


def selective_test(
    first: Numbers,
    second: Numbers,
    wrong: Numbers,
    *,
    of: Sequence[str] = ALL,
    tpr: float = 0.95,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    ignore_index: int | None = None,
) -> dict[str, Difference]:
    """Do two scores of one network differ? The same samples, or of maps images, are drawn for both.

    p is twice the share of resamples on the other side of 0 (0 itself on both), counting the data
    as one more resample.

    first, second: failure scores of the same samples, `(N,)`, or `(N, H, W)` of maps.
    wrong: whether each answer is an error, of the same shape.
    of: names among `ap_error`, `ap_success`, `auroc`, `fpr_at_tpr`, `aurc`, `augrc`, `excess_aurc`;
      by default all.
    tpr: share of correct answers to accept; `fpr_at_tpr` is the share of errors accepted there.
    level: confidence level of the intervals of the differences.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    ignore_index: what `wrong` holds where a label is left out, as `mark_ignored` writes it; None:
      nothing is.
    """
    options: Any = {"tpr": tpr, "level": level, "resamples": resamples, "seed": seed}
    options["ignore_index"] = ignore_index
    values, again = resampled({"first": first, "second": second}, wrong, of=of, **options)
    return resampled_differences(of, values, again, level)


def resampled(
    scores: Mapping[str, Numbers],
    wrong: Numbers,
    *,
    of: Sequence[str] = ALL,
    tpr: float = 0.95,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    ignore_index: int | None = None,
) -> tuple[Floats, Floats]:
    """The numbers of K scores for all samples and the resamples: (K, names), (K, names, R)."""
    check(level, resamples, seed)
    least_count(tpr, 1)
    check_names(of, STATISTICS, "metric of failure prediction")
    groups = [grouped(score, wrong, ignore_index) for score in scores.values()]
    values = np.array([[of_all(result, name, tpr) for name in of] for result in groups])
    flags = mistaken(counted_samples(("wrong", "wrong"), wrong, wrong, ignore_index)[1])
    unit = _units(wrong, ignore_index)
    orders = [result.order if unit is None else unit[result.order] for result in groups]
    blocks = []
    for counts in _counted(flags, resamples, seed, unit):
        rows = []
        for result, order in zip(groups, orders, strict=True):
            drawn = counts[:, order]
            samples = np.add.reduceat(drawn, result.first, axis=1)
            errors = np.add.reduceat(drawn * result.wrong, result.first, axis=1)
            tallies = Tallies(samples, errors, tpr)
            rows.append(np.stack([STATISTICS[name](tallies) for name in of]))
        blocks.append(np.stack(rows))
    return values, np.concatenate(blocks, axis=2)


def _units(wrong: Numbers, ignore_index: int | None) -> Counts | None:
    """The image that each pixel that counts is of; None where each sample has one entry."""
    marks = numbers("wrong", wrong, axes=None)
    if marks.ndim < 2:
        return None
    keep = np.ones(marks.shape, bool) if ignore_index is None else marks != ignore_index
    each = keep.reshape(len(marks), -1).sum(1)
    if (each > 0).sum() < 2:
        raise NescioError(
            "one image with labels shows nothing of how images differ, so there is no interval; "
            "give the maps of several images"
        )
    return np.repeat(np.arange(int((each > 0).sum())), each[each > 0])


def _counted(
    wrong: NDArray[Any], resamples: int, seed: int, unit: Counts | None = None
) -> Iterator[Counts]:
    """How often each sample, or image, is drawn, (R, N), in blocks of bounded size."""
    size = len(wrong) if unit is None else int(unit[-1]) + 1
    sizes = np.ones(size, np.int64) if unit is None else np.bincount(unit)
    errors = wrong.astype(np.int64) if unit is None else np.bincount(unit[wrong], minlength=size)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    for rows in blocks_of(resamples, len(wrong)):
        counts = _draw(rng, rows, size)
        while (one_kind := _one_kind(counts, sizes, errors)).any():
            counts[one_kind] = _draw(rng, int(one_kind.sum()), size)
        yield counts


def _one_kind(counts: Counts, sizes: Counts, errors: Counts) -> NDArray[np.bool_]:
    """Which resamples have errors only, or none, (R,)."""
    found, total = counts @ errors, counts @ sizes
    return np.asarray((found == 0) | (found == total))


def _draw(rng: np.random.Generator, rows: int, samples: int) -> Counts:
    return counts_of(rng.integers(samples, size=(rows, samples)))
