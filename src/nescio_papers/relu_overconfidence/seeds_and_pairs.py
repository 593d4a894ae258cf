"""Numbers over several seeds, and of two networks on the same inputs, with their intervals.

Networks of several seeds are tested on the same images: the interval of their mean has the part of
the seeds, by Student's t, and the part of the images, which all seeds share.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from nescio.core import Floats
from nescio.metrics import (
    Difference,
    Interval,
    delong_test,
    paired_share_test,
    separate_mean_test,
    separate_share_test,
    t_interval,
)
from nescio_papers.kit import sample

MMC, AUROC, FPR = "mean_max_confidence", "auroc", "fpr_at_95_tpr"
KEPT = 0.95  # share of the test images that a threshold keeps
Network: TypeAlias = tuple[Floats, Floats]  # scores of test images, and of a row: larger is further


def over_seeds(each: Sequence[Interval], low: float = 0.0, high: float = 1.0) -> Interval:
    """The mean of a number that was measured with several seeds, each with its interval.

    low, high: the range of the number.
    """
    whole = sample(one.value for one in each)
    spread = whole.half if len(each) > 1 else 0.0
    below = math.hypot(spread, np.mean([one.value - one.low for one in each]))
    above = math.hypot(spread, np.mean([one.high - one.value for one in each]))
    return Interval(whole.mean, max(low, whole.mean - below), min(high, whole.mean + above))


def differences(first: Network, second: Network, *, same: bool = True) -> dict[str, Interval]:
    """Confidence, AUROC and accepted share of the first network less those of the second.

    same: whether both have the same inputs: then they are paired. An attack may leave each its own,
      and then there is no AUROC.
    """
    sure = [expit(-far) for _, far in (first, second)]
    taken = [accepted(near, far) for near, far in (first, second)]
    found = {
        MMC: _mean(sure[0] - sure[1]) if same else _plain(separate_mean_test(*sure)),
        FPR: _plain((paired_share_test if same else separate_share_test)(*taken)),
    }
    if same:
        found[AUROC] = _plain(delong_test(first, second))
    return found


def accepted(near: Floats, far: Floats) -> NDArray[np.bool_]:
    """Whether inputs are at least as confident as the threshold that keeps 95 % of the data."""
    ordered = np.sort(-near)
    threshold = ordered[math.floor((1 - KEPT) * len(ordered) + 1e-9)]
    return np.asarray(-far >= threshold)


def errors(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[Interval, dict[str, int]]:
    """The test error of the first less that of the second, and who is wrong on how many images."""
    counts = {
        "both": int((first & second).sum()),
        "first": int((first & ~second).sum()),
        "second": int((second & ~first).sum()),
        "neither": int((~first & ~second).sum()),
    }
    return _plain(paired_share_test(first, second)), counts


def as_numbers(found: Interval) -> dict[str, Any]:
    """A number with its interval, as JSON has it."""
    return {"value": found.value, "low": found.low, "high": found.high}


def _mean(values: Floats) -> Interval:
    found = t_interval(values)
    return found if len(values) > 1 else Interval(found.value, -1.0, 1.0)


def _plain(found: Difference) -> Interval:
    return Interval(found.value, max(-1.0, found.low), min(1.0, found.high))
