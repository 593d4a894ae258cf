"""Student's intervals and paired test over repeats: seeds, splits, draws of the data."""

import math

import numpy as np

from nescio.core import Floats, NescioError, Numbers, check_level, numbers
from nescio.metrics.paired import Difference
from nescio.metrics.resampling import ROUNDING, Interval


def t_interval(values: Numbers, *, level: float = 0.95) -> Interval:
    """The mean of one number per repeat, with Student's interval; one repeat has none (NaN).

    >>> found = t_interval([1.0, 2.0, 3.0])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)

    values: one number per repeat, `(R,)`.
    level: confidence level of the interval.
    """
    from scipy.stats import t

    check_level(level)
    found = _checked("values", values)
    mean, count = float(found.mean()), len(found)
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    half = float(t.ppf((1 + level) / 2, count - 1) * found.std(ddof=1) / math.sqrt(count))
    return Interval(mean, mean - half, mean + half)


def t_test(first: Numbers, second: Numbers, *, level: float = 0.95) -> Difference:
    """The mean of the first less the second, repeat by repeat, with Student's paired test.

    Where all differences are equal, p is that of their signs, 2 to the power of 1 - repeats; where
    all are 0, or there is one repeat only, it is 1.

    first, second: one number per repeat of each side, `(R,)`, in the same order.
    level: confidence level of the interval of the difference.
    """
    from scipy.stats import t

    one, two = _checked("first", first), _checked("second", second)
    if len(one) != len(two):
        raise NescioError(f"a paired test needs the same repeats, got {len(one)} and {len(two)}")
    gaps = one - two
    ends = t_interval(gaps, level=level)
    spread = float(gaps.std(ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    if len(gaps) < 2 or np.abs(gaps).max() <= ROUNDING:
        p = 1.0
    elif spread <= ROUNDING:
        p = float(2.0 ** (1 - len(gaps)))
    else:
        p = float(2 * t.sf(abs(ends.value) / spread, len(gaps) - 1))
    return Difference(value=ends.value, low=ends.low, high=ends.high, p=p)


def _checked(name: str, values: Numbers) -> Floats:
    found = numbers(name, values, axes=1).astype(np.float64)
    if not np.isfinite(found).all():
        raise NescioError(f"`{name}` holds NaN or infinity, which has no mean; leave it out")
    return found
