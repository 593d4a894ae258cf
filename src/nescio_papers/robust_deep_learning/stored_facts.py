"""Facts from the numbers that a part stores: means over seeds, intervals, shares.

Where a number or its interval is missing, as after a quick run, the fact is left open.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nescio.conformal import binomial_interval
from nescio_papers.kit import ANY, Fact, Range, Sample, exactly, fact, sample

Stored = Mapping[str, Any]  # a number with its interval: value, low and high
UNKNOWN = {"value": math.nan, "low": math.nan, "high": math.nan}
LEARNED = {"CIFAR-10": 0.2}  # test errors from which on a network has not learned its data
ONCE = "one training: intervals are over test inputs alone"
RECALLED = "recalled from the paper, not checked"  # of a published number
BOTH_ENDS = 0.025  # outside a 95 % interval, on each side


def open_fact(
    what: str, *, above: float | None = None, below: float | None = None, form: str = ".3g"
) -> Fact:
    """A fact whose number is not known.

    what: what the number is, in words.
    above, below: the limit that it must be above, or below.
    form: how numbers are written.
    """
    return fact(what, math.nan, (math.nan, math.nan), above=above, below=below, form=form)


def number(value: float | None) -> float:
    """A stored number; NaN where there is none."""
    return math.nan if value is None else float(value)


def between(
    what: str,
    found: Stored | None,
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".3g",
    within: Range = ANY,
) -> Fact:
    """A stored number with its interval; open where it has none, or one without any width.

    what: what the number is, in words.
    found: its value, low and high end.
    above, below: the limit that it must be above, or below.
    form: how numbers are written.
    within: the range of the number, where its interval ends: `A_SHARE` of a share or an AUROC.
    """
    value, low, high = (number((found or UNKNOWN)[key]) for key in ("value", "low", "high"))
    if math.isnan(value + low + high) or low == high:
        return open_fact(what, above=above, below=below, form=form)
    ends = min(low, value), max(high, value)  # rounding may put a value outside
    return fact(what, value, ends, above=above, below=below, form=form, within=within)


def over_seeds(
    what: str,
    values: Sample | Iterable[float | None],
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".3g",
    within: Range = ANY,
) -> Fact:
    """A mean over seeds with Student's interval; open where a seed has no number, or all are equal.

    what: what the number is, in words.
    values: the number of each seed, or differences that are paired by seed.
    above, below: the limit that the mean must be above, or below.
    form: how numbers are written.
    within: the range of the mean, as in `between`.
    """
    found = values if isinstance(values, Sample) else sample(map(number, values))
    if any(map(math.isnan, found.values)):
        return open_fact(what, above=above, below=below, form=form)
    ends = {"value": found.mean, "low": found.mean - found.half, "high": found.mean + found.half}
    return between(what, ends, above=above, below=below, form=form, within=within)


def learned(data: str, what: str, errors: float | Sequence[float]) -> list[Fact]:
    """What claims on a data set presuppose: networks that have learned it, the worst of them too.

    data: name of the data set; nothing is asked of one that is not in `LEARNED`.
    what: whose test error it is, in words.
    errors: the test error of one network, on all test images, or of each of several.
    """
    if data not in LEARNED:
        return []
    each = [*map(number, errors if isinstance(errors, Sequence) else [errors])]
    worst = math.nan if any(map(math.isnan, each)) else max(each, default=math.nan)
    if len(each) > 1:
        what += f", the largest of {len(each)} networks,"
    return [exactly(what, worst, why="all test images", below=LEARNED[data], form=".1%")]


def of_count(
    what: str,
    successes: int,
    samples: int,
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".1%",
) -> Fact:
    """A share with its exact interval (Clopper and Pearson); open where nothing was counted.

    what: what is counted, in words.
    successes: number of samples that count.
    samples: number of all samples.
    above, below: the limit that the share must be above, or below.
    form: how numbers are written.
    """
    if not samples:
        return open_fact(what, above=above, below=below, form=form)
    found = vars(binomial_interval(successes, samples))
    return between(what, found, above=above, below=below, form=form)


def less(one: Stored, two: Stored) -> Stored:
    """One number less another, from their separate intervals: at least as wide as a paired one."""
    first, second = ({key: number(each[key]) for key in UNKNOWN} for each in (one, two))
    return {
        "value": first["value"] - second["value"],
        "low": first["low"] - second["high"],
        "high": first["high"] - second["low"],
    }


def mean_of(found: Sequence[Stored]) -> Stored:
    """The mean of numbers on the same samples, with ends as if they all erred together."""
    return {key: math.fsum(number(one[key]) for one in found) / len(found) if found else math.nan
            for key in UNKNOWN}  # fmt: skip


def simultaneous(one: Stored, count: int) -> Stored:
    """The interval of one of `count` numbers that was picked for its size (Bonferroni)."""
    from scipy.stats import norm

    value, low, high = (number(one[key]) for key in ("value", "low", "high"))
    wider = float(norm.isf(BOTH_ENDS / count) / norm.isf(BOTH_ENDS)) if count > 1 else 1.0
    return {
        "value": value,
        "low": value - wider * (value - low),
        "high": value + wider * (high - value),
    }


def smallest(found: Sequence[Stored]) -> Stored:
    """The smallest of several numbers, with an interval that allows for the choice.

    If all of the widened intervals are right, it is between the lowest of their lower and the
    lowest of their upper ends. Where one number is not known, nor is the smallest.
    """
    return _extreme(found, min)


def largest(found: Sequence[Stored]) -> Stored:
    """The largest of several numbers, with an interval that allows for the choice."""
    return _extreme(found, max)


def _extreme(found: Sequence[Stored], pick: Callable[[list[float]], float]) -> Stored:
    every = [simultaneous(one, len(found)) for one in found]
    ends = {key: [number(one[key]) for one in every] for key in UNKNOWN}
    if not every or any(map(math.isnan, ends["value"])):
        return UNKNOWN
    return {key: pick(values) for key, values in ends.items()}
