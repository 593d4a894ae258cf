"""Do two shares, or two means, differ: on the same samples, or on separate ones?

On the same samples only those tell that one side has and the other has not (McNemar, 1947); the
interval is that of the score test of Tango (1998). On separate samples: the exact test of Fisher
with the interval of Newcombe (1998), and the test of means of Welch (1947).
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Numbers, check_level, numbers
from nescio.metrics.paired import Difference, resampled_difference
from nescio.metrics.resampling import check, draws

HALVINGS = 60  # of an interval of length 2: what is left is below rounding


def paired_share_test(first: Numbers, second: Numbers, *, level: float = 0.95) -> Difference:
    """The share of the first less that of the second, on the same samples in the same order.

    p is exact: under equal shares, each sample that tells the two apart favors either side with
    probability 1/2.

    >>> found = paired_share_test([1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0])
    >>> found.value, found.p
    (0.75, 0.03125)

    first, second: 0 or 1, or false or true, for each sample, `(N,)`.
    level: confidence level of the interval of the difference.
    """
    from scipy.stats import binom

    check_level(level)
    one, two = _flags("first", first), _flags("second", second)
    if len(one) != len(two):
        raise NescioError(f"a paired test needs the same samples, got {len(one)} and {len(two)}")
    more, fewer = int((one & ~two).sum()), int((two & ~one).sum())
    low, high = _tango(more, fewer, len(one), NormalDist().inv_cdf((1 + level) / 2))
    p = min(1.0, 2 * float(binom.cdf(min(more, fewer), more + fewer, 0.5)))
    return Difference(value=(more - fewer) / len(one), low=low, high=high, p=p)


def separate_share_test(first: Numbers, second: Numbers, *, level: float = 0.95) -> Difference:
    """The share of the first less that of the second, on separate samples.

    Fisher's exact test, and Newcombe's interval (his tenth).

    first, second: 0 or 1, or false or true, for each sample, `(N,)` and `(M,)`.
    level: confidence level of the interval of the difference.
    """
    from scipy.stats import fisher_exact

    check_level(level)
    sides = [_flags("first", first), _flags("second", second)]
    hits, sizes = [int(side.sum()) for side in sides], [len(side) for side in sides]
    table = [[hit, size - hit] for hit, size in zip(hits, sizes, strict=True)]
    z = NormalDist().inv_cdf((1 + level) / 2)
    shares = [hit / size for hit, size in zip(hits, sizes, strict=True)]
    (low_1, high_1), (low_2, high_2) = (
        _wilson(*pair, z) for pair in zip(shares, sizes, strict=True)
    )
    value = shares[0] - shares[1]
    return Difference(
        value=value,
        low=value - math.hypot(shares[0] - low_1, high_2 - shares[1]),
        high=value + math.hypot(high_1 - shares[0], shares[1] - low_2),
        p=min(1.0, float(fisher_exact(table)[1])),
    )


def separate_mean_test(first: Numbers, second: Numbers, *, level: float = 0.95) -> Difference:
    """The mean of the first less that of the second, on separate samples (Welch, 1947).

    first, second: numbers of each sample, `(N,)` and `(M,)`.
    level: confidence level of the interval of the difference.
    """
    from scipy.stats import ttest_ind

    check_level(level)
    sides = [numbers(name, one, axes=1).astype(np.float64)
             for name, one in (("first", first), ("second", second))]  # fmt: skip
    value = float(sides[0].mean() - sides[1].mean())
    if min(map(len, sides)) < 2:
        return Difference(value=value, low=-math.inf, high=math.inf, p=1.0)
    if all(np.ptp(side) == 0 for side in sides):
        return Difference(value=value, low=value, high=value, p=float(value == 0))
    found = ttest_ind(*sides, equal_var=False)
    ends = found.confidence_interval(level)
    return Difference(
        value=value, low=float(ends.low), high=float(ends.high), p=float(found.pvalue)
    )


def separate_metric_test(
    metric: Callable[..., Any],
    first: Sequence[Numbers],
    second: Sequence[Numbers],
    *,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> Difference:
    """Does a metric differ between separate samples? Each side is drawn by itself.

    metric: a function of the arrays that returns a number, such as `nescio.metrics.accuracy`.
    first, second: what `metric` takes of each side, such as `(probs, labels)`, one row per sample.
    level: confidence level of the interval of the difference.
    resamples: number of bootstrap resamples.
    seed: seed of the random draws.
    """
    check(level, resamples, seed)
    sides = [[np.asarray(table) for table in side] for side in (first, second)]
    again = [
        [float(metric(*(table[rows] for table in side)))
         for block in draws(len(side[0]), resamples, seed, stream, block=len(side[0]))
         for rows in block]
        for stream, side in enumerate(sides)
    ]  # fmt: skip
    values = np.array([float(metric(*side)) for side in sides])
    return resampled_difference(values, np.array(again), level)


def _flags(name: str, values: Numbers) -> NDArray[np.bool_]:
    found = numbers(name, values, axes=1)
    if not np.isin(found, (0, 1)).all():
        raise NescioError(f"`{name}` must hold 0 or 1 for each sample")
    return found.astype(bool)


def _tango(more: int, fewer: int, samples: int, z: float) -> tuple[float, float]:
    """All differences that the score test does not reject; its statistic falls as they grow."""

    def statistic(gap: float) -> float:
        return (more - fewer - samples * gap) / math.sqrt(
            samples * _variance(gap, more, fewer, samples)
        )

    value = (more - fewer) / samples
    return _crossing(statistic, z, -1.0, value), _crossing(statistic, -z, value, 1.0)


def _variance(gap: float, more: int, fewer: int, samples: int) -> float:
    """Of the difference of one sample, at the shares that are most likely if it is `gap`."""
    a, c = 2 * samples, -fewer * gap * (1 - gap)
    b = (2 * samples - more + fewer) * gap - more - fewer
    least = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # of `fewer`
    return max(2 * least + gap * (1 - gap), 1e-300)


def _crossing(statistic: Callable[[float], float], at: float, low: float, high: float) -> float:
    """Where a falling function takes a value, by halving; the end that it does not pass."""
    if statistic(low) <= at:
        return low
    if statistic(high) >= at:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if statistic(middle) > at else (low, middle)
    return (low + high) / 2


def _wilson(share: float, samples: int, z: float) -> tuple[float, float]:
    """The score interval of one share (Wilson, 1927)."""
    center = share + z * z / (2 * samples)
    half = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples**2))
    whole = 1 + z * z / samples
    return max(0.0, (center - half) / whole), min(1.0, (center + half) / whole)
