"""How many calibration labels until the guard can guarantee an error rate at a coverage.

The guard answers the samples of smallest failure score and tests from a first rank upwards
(`guards/largest_coverage.py`). From the error rate at each coverage, as samples with labels show
it, the errors up to each rank have a known law, so the probability that no test fails before the
wished coverage is computed rank by rank instead of simulated. The number of labels is the smallest
at which this probability is high.
"""

import math
from dataclasses import dataclass

import numpy as np

from nescio.conformal import binomial_interval
from nescio.conformal import needed as needed_for_false_alarms
from nescio.core import Floats, NescioError, Numbers, numbers
from nescio.guards import check_shares, first_rank, splitting, upper_bound

MOST = 100_000  # calibration samples beyond which nothing is planned
RARE = 1e-12  # probability of so few errors that they are left out
LEVEL = 0.9  # of the interval


@dataclass(frozen=True, kw_only=True)
class GuaranteePlan:
    """The number of calibration labels that lets a guard guarantee an error rate at a coverage.

    risk: error rate among answers that is to be guaranteed.
    coverage: share of inputs that is to be answered.
    confidence: probability with which the calibration data must show the risk.
    chance: probability that these labels are enough.
    tested: number of samples that the plan rests on.
    error: error rate at this coverage, as they show it.
    largest: coverage up to which they show an error rate below `risk`.
    needed: number of calibration labels; infinity: by no number of them.
    low, high: the same if the error rate is at the lower or the upper end of its 90 % interval.
    """

    risk: float
    coverage: float
    confidence: float
    chance: float
    tested: int
    error: float
    largest: float
    needed: float
    low: float
    high: float

    def __str__(self) -> str:
        wish = (
            f"an error rate of {self.risk:g} among the answers at a coverage of {self.coverage:g}"
        )
        seen = f"at this coverage the error rate is {self.error:.3g} on {self.tested} test samples"
        if math.isinf(self.needed):
            how = (
                f"ask for a coverage up to {self.largest:.2f}"
                if self.largest > 0
                else "ask for a larger error rate"
            )
            return (
                f"no number of calibration labels lets the guard guarantee {wish}: {seen}. The "
                f"network must get better, so label for training, or {how}"
            )
        return (
            f"a guarantee of {wish} takes about {self.needed:.0f} calibration labels "
            f"({LEVEL:.0%} interval {self._interval()}): these are enough in "
            f"{self.chance:.0%} of the draws\n"
            f"{seen}; the guarantee would hold with probability {self.confidence:g}\n"
            "calibration labels must be of samples drawn at random, not chosen by an acquisition"
        )

    def _interval(self) -> str:
        if math.isinf(self.high):
            return f"from {self.low:.0f} to no number at all"
        return f"{self.low:.0f} to {self.high:.0f}"


def plan_guarantee(
    failure_score: Numbers,
    wrong: Numbers,
    *,
    risk: float,
    coverage: float,
    confidence: float = 0.95,
    chance: float = 0.8,
    false_alarm: float = 0.01,
    tuning: float = splitting.TUNING,
    most: float = MOST,
) -> GuaranteePlan:
    """How many calibration labels until a guard answers `coverage` of the inputs at `risk`.

    A failure score is taken to be larger where errors are more frequent. The interval is that of
    the error rate at this coverage, by Clopper and Pearson; the network stays as it is.

    failure_score, wrong: failure scores, and whether the answers are wrong, `(N,)`, of samples that
      were not trained on and are drawn like those met later.
    risk: largest share of answers that may be wrong.
    coverage: share of inputs that is to be answered.
    confidence: probability with which the calibration data must show the risk.
    chance: probability over the draw of the calibration samples that the guard gets there.
    false_alarm: largest share of inputs like the calibration data that may be called OOD.
    tuning: share of the calibration samples that tunes the failure score and shows nothing.
    most: numbers of labels above it are not searched, and count as infinite.
    """
    check_shares(risk=risk, coverage=coverage, confidence=confidence, chance=chance)
    within = coverage / (1 - false_alarm)
    if within >= 1:
        raise NescioError(
            f"with false_alarm={false_alarm:g} at most {1 - false_alarm:g} of the inputs are "
            f"answered; a coverage of {coverage:g} is not possible"
        )
    errors = _sorted_errors(failure_score, wrong)
    total = _cumulated(errors)
    error = _at(total, within) / within
    first = math.ceil(within * len(errors))
    seen = binomial_interval(round(errors[:first].sum()), first, level=LEVEL)
    low, high = min(seen.low, error), max(seen.high, error)
    grid = np.linspace(0, 1, len(total))
    curves = [total, total * (low / error if error else 1.0), total + (high - error) * grid]
    search = _Search(risk=risk, confidence=confidence, coverage=within, chance=chance, most=most)
    shown = [search.smallest(curve) / (1 - false_alarm) for curve in curves]
    least = needed_for_false_alarms(false_alarm)
    needed = [_with_tuning(max(count, least), tuning) for count in shown]
    rates = np.divide(total[1:], grid[1:])
    return GuaranteePlan(
        risk=risk,
        coverage=coverage,
        confidence=confidence,
        chance=chance,
        tested=len(errors),
        error=error,
        largest=float(grid[1:][rates < risk].max(initial=0.0) * (1 - false_alarm)),
        needed=needed[0],
        low=needed[1],
        high=needed[2],
    )


@dataclass(frozen=True, kw_only=True)
class _Search:
    """What is asked of calibration samples that are not OOD."""

    risk: float
    confidence: float
    coverage: float
    chance: float
    most: float

    def smallest(self, total: Floats) -> float:
        """The smallest number of samples with which the guard gets there; infinity: none."""
        if _at(total, self.coverage) / self.coverage >= self.risk:
            return math.inf
        high = 16
        while self.probability(total, high) < self.chance:
            high *= 2
            if high > self.most:
                return math.inf
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.probability(total, middle) >= self.chance
            low, high = (low, middle) if enough else (middle, high)
        return high

    def probability(self, total: Floats, samples: int) -> float:
        """That no test of the guard's fails before the coverage, of errors with these rates."""
        first = first_rank(samples, self.risk, self.confidence)
        last = max(math.ceil(self.coverage * samples), first + 1)
        if last > samples:
            return 0.0
        begins = _forgiving(self.risk, self.confidence, last)  # ranks from which k errors pass
        ends = np.append(begins[1:] - 1, last)  # the last rank that forgives no more
        ends = np.minimum(ends, last)
        errors = samples * np.interp(ends / samples, np.linspace(0, 1, len(total)), total)
        states, least, rank = np.ones(1), 0, 0  # the law of the errors, from `least` on, at a rank
        before = 0.0  # expected errors up to it
        for forgiven, (end, upto) in enumerate(zip(ends.tolist(), errors.tolist(), strict=True)):
            if end < first or end <= rank:
                continue
            step = end - rank
            more = _binomial(min(forgiven, step), step, (upto - before) / step)
            states, rank, before = np.convolve(states, more)[: forgiven + 1 - least], end, upto
            rare = int(np.searchsorted(states.cumsum(), RARE))
            states, least = states[rare:], least + rare
        return float(states.sum()) if rank == last else 0.0


def _binomial(most: int, trials: int, rate: float) -> Floats:
    """The probabilities of 0 to `most` successes."""
    from scipy.special import gammaln, xlog1py, xlogy

    rate, count = min(max(rate, 0.0), 1.0), np.arange(most + 1)
    ways = gammaln(trials + 1) - gammaln(count + 1) - gammaln(trials - count + 1)
    return np.asarray(np.exp(ways + xlogy(count, rate) + xlog1py(trials - count, -rate)))


def _forgiving(risk: float, confidence: float, most: int) -> Floats:
    """The fewest answers that show the risk with 0, 1, 2, ... errors, up to `most` answers."""
    errors = np.arange(math.ceil(risk * most) + 1)
    low, high = errors, np.full(len(errors), most + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        shows = upper_bound(errors, middle, confidence) <= risk
        low, high = np.where(shows, low, middle), np.where(shows, middle, high)
    return high[high <= most]


def _sorted_errors(failure_score: Numbers, wrong: Numbers) -> Floats:
    """Whether each sample is wrong, by rising failure score; ties share their errors."""
    scores = numbers("failure_score", failure_score, axes=1).astype(np.float64)
    errors = numbers("wrong", wrong, axes=1).astype(np.float64)
    if len(scores) != len(errors):
        raise NescioError(f"{len(scores)} failure scores but {len(errors)} answers")
    if np.isnan(scores).any() or not np.isin(errors, (0, 1)).all():
        raise NescioError("failure scores must not be NaN, and wrong must be 0 or 1")
    _, group = np.unique(scores, return_inverse=True)
    shares = np.bincount(group, errors) / np.bincount(group)
    return np.asarray(shares[np.sort(group)])


def _cumulated(errors: Floats) -> Floats:
    """The share of samples that are answered and wrong at coverages 0, 1 / n, ..., 1.

    Error rates rise with the score (isotonic regression), as the score's meaning says.
    """
    from sklearn.isotonic import IsotonicRegression

    place = np.arange(len(errors))
    rising = IsotonicRegression().fit_transform(place, errors)
    return np.append(0.0, rising.cumsum() / len(errors))


def _at(total: Floats, coverage: float) -> float:
    return float(np.interp(coverage, np.linspace(0, 1, len(total)), total))


def _with_tuning(shown: float, tuning: float) -> float:
    """All calibration samples, those that tune among them."""
    if math.isinf(shown):
        return math.inf
    return float(math.ceil(min(shown / (1 - tuning), shown + splitting.ENOUGH)))
