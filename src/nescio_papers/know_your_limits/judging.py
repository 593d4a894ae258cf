"""Facts of claims from numbers over trainings: a mean, and an interval that is never too narrow.

A row has the mean, the lowest and the highest of several trainings, and their values. Where the
values are absent, as in numbers stored long ago, the largest deviation that the three allow takes
their place: (high - mean) (mean - low) is no less than the variance.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.special import stdtrit

from nescio.conformal.coverage import binomial_interval
from nescio_papers.kit import A_SHARE, ANY, Fact, Range, Sample, fact, mean_range, sample

Row = Mapping[str, Any]  # mean, low, high, and mostly values
TINY = 1e-300
TRAININGS = 5  # of each model in the full version
PERCENT = ".1%"
ABSENT: Row = dict.fromkeys(("mean", "low", "high"), math.nan)  # of a number not yet measured


def over_trainings(values: Sequence[float]) -> dict[str, Any]:
    """Mean, lowest and highest of a number, and its value in each training to six digits."""
    return {**mean_range(values), "values": [float(f"{value:.6g}") for value in values]}


def half_width(row: Row, count: int = TRAININGS) -> float:
    """Half the width of the 95 % interval of a mean over `count` trainings, or a bound on it."""
    if "values" in row:
        return _half(row["values"])
    if count < 2:
        return math.inf
    most = math.sqrt(max(0.0, (row["high"] - row["mean"]) * (row["mean"] - row["low"])))
    width: float = stdtrit(count - 1, 0.975).item()
    return width * most / math.sqrt(count - 1)


def _half(values: Sequence[float | None]) -> float:
    return half_or_inf(sample(math.nan if value is None else value for value in values))


def half_or_inf(values: Sample) -> float:
    """Half the width of the interval of a mean; of one value nothing is known, so it has no end."""
    return math.inf if len(values.values) < 2 else values.half


def of_share(
    what: str,
    row: Row,
    *,
    above: float | None = None,
    below: float | None = None,
    points: int,
    count: int = TRAININGS,
) -> Fact:
    """The mean share of points over trainings.

    what: what the share is.
    row: its numbers.
    above, below: the limit.
    points: points of one training: where all trainings have the same share, the interval is the
      exact binomial one of that many.
    count: trainings, where the row does not say how wide the interval is.
    """
    mean, half = float(row["mean"]), half_width(row, count)
    ends = mean - half, mean + half
    if half == 0 and not math.isnan(mean):
        exact = binomial_interval(round(mean * points), points)
        ends = min(mean, exact.low), max(mean, exact.high)
    return fact(what, mean, ends, above=above, below=below, form=PERCENT, within=A_SHARE)


def of_number(
    what: str,
    row: Row,
    *,
    above: float | None = None,
    below: float | None = None,
    step: float = 0.0,
    within: Range = ANY,
    count: int = TRAININGS,
    form: str = ".3g",
) -> Fact:
    """The mean of a number over trainings.

    what: what the number is.
    row: its numbers.
    above, below: the limit.
    step: how finely it was measured, such as the step of a grid: the interval is at least as wide.
    within: the smallest and the largest value that it can have; the interval ends there.
    count: trainings, where the row does not say how wide the interval is.
    form: how numbers are written.
    """
    mean, half = float(row["mean"]), max(half_width(row, count), step)
    ends = mean - half, mean + half
    return fact(what, mean, ends, above=above, below=below, form=form, within=within, alike=True)


def of_difference(
    what: str,
    one: Row,
    two: Row,
    *,
    above: float | None = None,
    below: float | None = None,
    step: float = 0.0,
    paired: bool = True,
    count: int = TRAININGS,
    form: str = ".3g",
) -> Fact:
    """The first less the second, over the same trainings.

    Without the values of both, the half widths add up: no paired interval is wider.

    what: what the difference is.
    one, two: the numbers.
    above, below: the limit.
    step: how finely it was measured: the interval is at least as wide.
    paired: whether training i of both belongs together; False: they are independent.
    count: trainings, where the rows do not say.
    form: how numbers are written.
    """
    gap = float(one["mean"]) - float(two["mean"])
    halves = half_width(one, count), half_width(two, count)
    if not paired:
        half = math.hypot(*halves)
    elif "values" in one and "values" in two:
        pairs = zip(one["values"], two["values"], strict=True)
        half = _half([math.nan if None in (a, b) else a - b for a, b in pairs])
    else:
        half = sum(halves)
    half = max(half, step)
    ends = gap - half, gap + half
    return fact(what, gap, ends, above=above, below=below, form=form, alike=True)


def of_orders(what: str, one: Row, two: Row, *, below: float) -> Fact:
    """The decimal logarithm of the first over the second, training by training.

    what: what is compared.
    one, two: the numbers; positive, and of any order of magnitude.
    below: the limit.
    """
    if "values" not in one or "values" not in two:
        return of_number(what, ABSENT, below=below)
    logs = [[math.log10(max(value, TINY)) for value in row["values"]] for row in (one, two)]
    return of_number(what, over_trainings([a - b for a, b in zip(*logs, strict=True)]), below=below)


def counted(
    what: str, hits: int, of: int, *, above: float | None = None, below: float | None = None
) -> Fact:
    """The share of `hits` of `of` networks or rays, with its exact binomial interval.

    what: what is counted.
    hits: how many.
    of: of how many.
    above, below: the limit.
    """
    result = binomial_interval(hits, of)
    return fact(
        what, result.value, (result.low, result.high), above=above, below=below, form=PERCENT
    )
