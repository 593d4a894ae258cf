"""How many labels until which error: an inverse power law through the points of a learning curve.

Error rates fall about like a + b n^-c with the number n of labels (Hestness et al., 2017): a is the
floor that labels alone do not go below. The points are weighted by their binomial noise. For the
interval they are drawn again and again around the fitted curve and fitted again.
"""

import math
from dataclasses import dataclass

import numpy as np

from nescio.core import Floats, NescioError, Numbers, check_level, derive, numbers

LEAST = 4  # points: three would always be met by the three numbers of the curve
EXPONENTS = np.geomspace(0.05, 2.0, 400)
FAR = 4.0  # times the labels so far: beyond it, the answer is said to be a guess
FARTHEST = 1000.0  # times the labels so far: beyond it, the answer is never


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """The number of labels at which a learning curve meets an error rate.

    target: error rate to reach.
    labels: number of labels at the last point.
    needed: labels in all, of the fitted curve; infinity: most draws stay above.
    low, high: a share `confidence` of the draws needs at least `low` and at most `high` labels.
    confidence: confidence level of the interval.
    never: share of the draws whose error rate stays above the target.
    floor, scale, exponent: a, b and c of the fitted curve a + b n^-c.
    """

    target: float
    labels: int
    needed: float
    low: float
    high: float
    confidence: float
    never: float
    floor: float
    scale: float
    exponent: float

    @property
    def more(self) -> float:
        """Labels that are still needed; 0 where the curve is below the target already."""
        return max(0.0, self.needed - self.labels)

    def error_at(self, labels: Numbers) -> Floats:
        """The error rate of the fitted curve at numbers of `labels`."""
        count = numbers("labels", labels, axes=None).astype(np.float64)
        return np.asarray(self.floor + self.scale * count**-self.exponent)

    def __str__(self) -> str:
        curve = f"fitted curve: {self.floor:.3g} + {self.scale:.3g} n^-{self.exponent:.2g}"
        if math.isinf(self.needed):
            return (
                f"an error rate of {self.target:g} is not reached by any number of labels that "
                f"these points can tell: in {self.never:.0%} of the draws the curve stays above "
                f"it ({curve}). Label more and ask again, or use another network or recipe"
            )
        if self.more == 0:
            return (
                f"an error rate of {self.target:g} is reached with {self.labels} labels ({curve}); "
                f"{self.confidence:.0%} interval of the labels that it takes: {self._interval()}"
            )
        lines = [
            f"an error rate of {self.target:g} takes about {self.more:.0f} more labels, "
            f"{self.needed:.0f} in all; {self.confidence:.0%} interval {self._interval()} in all",
            curve,
        ]
        if self.never > 0:
            lines.append(f"in {self.never:.0%} of the draws no number of labels is enough")
        if self.needed > FAR * self.labels:
            lines.append(
                f"this is {self.needed / self.labels:.0f} times the {self.labels} labels so far: "
                "take it for a guess, and ask again with more points"
            )
        return "\n".join(lines)

    def _interval(self) -> str:
        if math.isinf(self.high):
            return f"from {self.low:.0f} to more than these points can tell"
        return f"{self.low:.0f} to {self.high:.0f}"


def plan(
    labels: Numbers,
    errors: Numbers,
    *,
    target: float,
    tested: int,
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> LabelPlan:
    """How many labels it takes until the error rate is `target`, with an interval.

    Where points scatter more than `tested` samples explain, as networks do, the interval is as much
    wider. It assumes that the curve continues as a + b n^-c with a >= 0 and c up to 2, and the same
    way of choosing samples; it cannot see a bend that comes later.

    labels, errors: points of a learning curve: numbers of labels in ascending order, and error
      rates on samples that were not trained on.
    target: error rate to reach.
    tested: number of samples that each error rate was measured on.
    confidence: confidence level of the interval.
    draws: number of curves that are drawn for the interval.
    seed: seed of the random draws.
    """
    count, rates = _points(labels, errors, target, tested)
    check_level(confidence)
    noise = _noise(rates, tested)
    for _ in range(3):  # the noise of a point depends on its true rate
        fitted = _fit(count, rates[None], noise)
        curve = fitted[0] + fitted[1] * count ** -fitted[2]
        noise = _noise(curve, tested)
    scatter = float(((rates - curve) ** 2 / noise).sum() / (len(count) - 3))
    random = np.random.default_rng(derive(seed, "plan"))
    # A scatter of few points is uncertain itself, so it is drawn too, as for Student's t.
    free = len(count) - 3
    wider = np.maximum(1.0, scatter * free / random.chisquare(free, (draws, 1)))
    own = random.standard_normal((draws, len(count))) * np.sqrt(wider)
    # Points that scatter less than their noise share it: they were tested on the same samples.
    shared = random.standard_normal((draws, 1)) * math.sqrt(max(0.0, 1.0 - scatter))
    drawn = np.clip(curve + np.sqrt(noise) * (own + shared), 0.0, 1.0)
    needed = _needed(*_fit(count, drawn, noise), target)
    needed[needed > FARTHEST * count[-1]] = math.inf
    edge = (1 - confidence) / 2
    low, middle, high = np.quantile(needed, [edge, 0.5, 1 - edge], method="higher").tolist()
    own_curve = float(_needed(*fitted, target)[0])
    best = math.inf if math.isinf(middle) else min(max(own_curve, low), high)
    return LabelPlan(
        target=target,
        labels=int(count[-1]),
        needed=best if math.isinf(best) else math.ceil(best),
        low=low if math.isinf(low) else math.floor(low),
        high=high if math.isinf(high) else math.ceil(high),
        confidence=confidence,
        never=float(np.isinf(needed).mean()),
        floor=float(fitted[0][0]),
        scale=float(fitted[1][0]),
        exponent=float(fitted[2][0]),
    )


def _points(labels: Numbers, errors: Numbers, target: float, tested: int) -> tuple[Floats, Floats]:
    count = numbers("labels", labels, axes=1).astype(np.float64)
    rates = numbers("errors", errors, axes=1).astype(np.float64)
    if len(count) != len(rates):
        raise NescioError(f"{len(count)} numbers of labels but {len(rates)} error rates")
    if len(count) < LEAST:
        raise NescioError(
            f"a learning curve of {len(count)} point(s) cannot tell what comes next; it takes at "
            f"least {LEAST}: label some more, train, and measure again"
        )
    if not (count > 0).all() or not (np.diff(count) > 0).all():
        raise NescioError("labels must be positive and rise from point to point")
    if not ((rates >= 0) & (rates <= 1)).all():
        raise NescioError("errors must be error rates, between 0 and 1")
    if not 0 < target < 1:
        raise NescioError(f"target must be an error rate between 0 and 1, got {target}")
    if tested < 1:
        raise NescioError(f"tested must be the number of test samples, got {tested}")
    return count, rates


def _noise(rates: Floats, tested: int) -> Floats:
    """Binomial variances; where no sample was wrong, that of half a wrong one."""
    safe = np.clip(rates, 0.5 / tested, 1 - 0.5 / tested)
    return np.asarray(safe * (1 - safe) / tested)


def _fit(count: Floats, rates: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """a, b, c of each row of rates `(D, S)`: of a line in n^-c for every c, the best one."""
    unit = count[-1]
    weight = 1 / noise / (1 / noise).sum()
    powers = (count / unit) ** -EXPONENTS[:, None]  # (E, S)
    mean, square = powers @ weight, powers**2 @ weight  # (E,)
    level, joint = rates @ weight, (rates * weight) @ powers.T  # (D,), (D, E)
    slope = np.maximum((joint - level[:, None] * mean) / (square - mean**2), 0.0)
    floor = level[:, None] - slope * mean
    slope = np.where(floor < 0, joint / square, slope)
    floor = np.maximum(floor, 0.0)
    loss = slope**2 * square + floor**2 + 2 * slope * floor * mean
    loss -= 2 * (slope * joint + floor * level[:, None])
    best, row = loss.argmin(1), np.arange(len(rates))
    exponent = EXPONENTS[best]
    return floor[row, best], slope[row, best] * unit**exponent, exponent


def _needed(floor: Floats, scale: Floats, exponent: Floats, target: float) -> Floats:
    """Where each curve meets the target; infinity: nowhere."""
    below = np.maximum(target - floor, 1e-300)
    with np.errstate(over="ignore"):
        return np.where(floor < target, (scale / below) ** (1 / exponent), np.inf)
