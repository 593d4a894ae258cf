"""Whether predicted quantiles are right: probability integral transform, curve and error.

The transform of a target is u = F(y), F the predicted distribution function. If the predictions are
calibrated, u is uniform on (0, 1): the share of targets at or below the predicted p-quantile is p
for every p (Dawid, 1984; Kuleshov et al., 2018).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nescio.core import Counts, Floats, NescioError, Regression, check_level
from nescio.core.registry import metrics
from nescio.metrics.regression import said_and_targets

LEVELS = tuple(k / 20 for k in range(1, 20))


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileCalibration:
    """The share of targets at or below the predicted quantile of each level.

    The band is simultaneous: with probability at least `confidence` the true shares of all levels
    and targets lie within `band` of the observed ones (Dvoretzky, Kiefer, Wolfowitz; Massart,
    1990), for independent samples. So if p is further than `band` from what was observed at any
    level, the predictions are not calibrated.

    levels: levels p of the quantiles, `(K,)`.
    observed: share of targets at or below the p-quantile, `(K, D)`.
    covered: share of targets in the central interval of probability p, `(K, D)`.
    band: half the width of the band about `observed`.
    confidence: probability with which the whole band holds.
    samples: number of samples.
    """

    levels: Floats
    observed: Floats
    covered: Floats
    band: float
    confidence: float
    samples: int

    @property
    def low(self) -> Floats:
        """Lower ends of the band, `(K, D)`."""
        return np.maximum(0.0, self.observed - self.band)

    @property
    def high(self) -> Floats:
        """Upper ends of the band, `(K, D)`."""
        return np.minimum(1.0, self.observed + self.band)

    @property
    def calibrated(self) -> bool:
        """Whether every level lies within the band: the samples show no miscalibration."""
        return bool((np.abs(self.observed - self.levels[:, None]) <= self.band).all())


@metrics.register
def quantile_calibration(
    prediction: Regression,
    targets: Any,
    *,
    levels: Any = LEVELS,
    confidence: float = 0.95,
) -> QuantileCalibration:
    """The calibration curve of a regression, with a simultaneous band over levels and targets.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    levels: probabilities of the quantiles, and of the central intervals, in rising order.
    confidence: probability with which the whole band holds.
    """
    check_level(confidence)
    at = np.asarray(levels, dtype=np.float64)
    if at.ndim != 1 or not at.size or not ((at > 0) & (at < 1)).all() or (np.diff(at) <= 0).any():
        raise NescioError(f"levels must be ascending numbers between 0 and 1, got {levels}")
    u = pit(prediction, targets)
    samples, count = u.shape
    return QuantileCalibration(
        levels=at,
        observed=np.stack([(u <= p).mean(0) for p in at]),
        covered=np.stack([(np.abs(2 * u - 1) <= p).mean(0) for p in at]),
        band=math.sqrt(math.log(2 * count / (1 - confidence)) / (2 * samples)),
        confidence=confidence,
        samples=samples,
    )


@metrics.register
def quantile_calibration_error(prediction: Regression, targets: Any) -> float:
    """The mean over levels p of |share of targets at or below the p-quantile - p|.

    The exact area between the calibration curve and the diagonal, from 0 to 1/2, without bins; mean
    over targets. Calibrated predictions have about 0.313 / sqrt(N) by chance.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    u = pit(prediction, targets)
    return float(weighted_areas(u, np.ones((1, len(u)), dtype=np.int64)).mean())


def pit(prediction: Regression, targets: Any) -> Floats:
    """The probability integral transform F(y) of each target, `(N, D)`: uniform if calibrated.

    prediction: a regression, such as `nescio.Gaussian`.
    targets: true targets, `(N,)` or `(N, D)`.
    """
    said, y = said_and_targets(prediction, targets)
    size = max(1, (1 << 20) // (said.members * y.shape[1]))
    starts = range(0, len(y), size)
    parts = [said[start : start + size].cdf(y[start : start + size]) for start in starts]
    return np.asarray(torch.cat(parts).cpu().numpy(), dtype=np.float64)


def weighted_areas(u: Floats, counts: Counts) -> Floats:
    """The area between the distribution function of each column `(N, D)` and the diagonal, (R, D).

    counts: (R, N) how often each sample counts.
    """
    found = np.empty((len(counts), u.shape[1]))
    for k, column in enumerate(u.T):
        order = column.argsort()
        edges = np.concatenate([[0.0], column[order], [1.0]])
        share = np.pad(counts[:, order].cumsum(1) / len(u), ((0, 0), (1, 0)))  # between two edges
        left, right = edges[:-1] - share, edges[1:] - share
        crossed = (left < 0) & (right > 0)  # the diagonal crosses the step
        same = np.abs(left + right) * (right - left) / 2
        found[:, k] = np.where(crossed, (left**2 + right**2) / 2, same).sum(1)
    return found
