"""Monitors of streams in parallel as one: the mean of their martingales.

The mean of martingales with one past is a martingale, so the bound holds for it as for each. Their
product is not one where they have calibration scores in common. Nor is then the mean watched at all
times: what one stream shows of the common scores tells something of the ranks in the other. So each
shard has its own part of the calibration scores; bins may be common, they are fixed beforehand.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nescio.core import NescioError
from nescio.monitoring.monitor import Monitor


@dataclass(frozen=True, eq=False, repr=False)
class Merged:
    """Several monitors now; watch `alarm` whenever they are merged, as often as wanted."""

    monitors: tuple[Monitor, ...]
    log_martingale: float
    false_alarm: float

    def __repr__(self) -> str:
        alarm = "ALARM" if self.alarm else "no alarm"
        count, bound = len(self.monitors), f"false_alarm={self.false_alarm:g}"
        return f"Merged({count} monitor(s), {self.count} scores, {alarm} now, {bound})"

    @property
    def alarm(self) -> bool:
        """Whether the mean is at or above 1 / false_alarm now."""
        return self.log_martingale >= -math.log(self.false_alarm)

    @property
    def count(self) -> int:
        """Scores of all streams."""
        return sum(monitor.count for monitor in self.monitors)


def merge(monitors: Sequence[Monitor]) -> Merged:
    """The mean of the martingales of shards, made with `monitor(..., shard=i, shards=n)`."""
    if not monitors or not all(isinstance(one, Monitor) for one in monitors):
        raise NescioError("merge takes a list of one or more monitors")
    for one, two in combinations(monitors, 2):
        if one.false_alarm != two.false_alarm:
            raise NescioError(
                f"monitors have different bounds, {one.false_alarm:g} and {two.false_alarm:g}; "
                "make them with one `false_alarm`"
            )
        if one.source == two.source and _overlap(one, two):
            raise NescioError(
                "two monitors count the same calibration scores, so the bound would not hold for "
                "them together; make each with its own number: monitor(..., shard=i, shards=n)"
            )
    logs = np.array([one.log_martingale for one in monitors])
    mean = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
    return Merged(tuple(monitors), mean, monitors[0].false_alarm)


def _overlap(one: Monitor, two: Monitor) -> bool:
    """Whether two parts of the same scores have some in common."""
    same_cut = (one.seed, one.shard[1], len(one.edges)) == (two.seed, two.shard[1], len(two.edges))
    return not same_cut or one.shard[0] == two.shard[0]
