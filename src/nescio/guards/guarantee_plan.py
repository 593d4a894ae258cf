"""How many labeled samples it takes to guarantee a risk at a coverage.

The walk of `largest_coverage` reaches a coverage c with n samples if it passes the exact test at
every rank from the first one to c n. Whether it does is a matter of where the errors lie, so it is
simulated: errors are drawn at ranks, as often as they were observed there, and the smallest n is
searched with which the walk reaches c in the wanted share of draws. What was observed is an
estimate, too: the plan is made for the estimate and for the two ends of its interval.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Numbers, derive, numbers
from nescio.guards.largest_coverage import check_shares, fewest, first_rank
from nescio.metrics import Interval

POWER = 0.8  # share of calibration sets with which the guarantee is reached
LEVEL = 0.8  # of the interval of the observed risk
DRAWS = 500  # simulated walks
ERRORS = 1_500  # expected errors of a walk up to which it is simulated
MOST = 10_000_000  # samples
DIGITS = 3  # of the answer

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class GuaranteePlan:
    """What it takes to guarantee a risk at a coverage; None: no number of samples is enough."""

    risk: float
    coverage: float
    confidence: float
    observed: Interval  # the error rate at this coverage, with its interval of 80 %
    samples: int  # that it was observed on
    errors: int
    needed: int | None  # calibration samples, at the observed error rate
    low: int | None  # at the lower end of its interval
    high: int | None  # at the upper end
    # None: the error rate is not below the risk, or so near it that millions would be needed


def guarantee_plan(
    score: Numbers,
    wrong: Numbers,
    *,
    risk: float,
    coverage: float,
    confidence: float = 0.95,
    seed: int = 0,
) -> GuaranteePlan:
    """The number of labeled samples with which a risk at a coverage can be guaranteed.

    With `needed` calibration samples, `largest_coverage` answers the share `coverage` of them in 4
    of 5 cases, if the samples are like these. It needs no guarantee, and gives none.

    score, wrong: `(N,)` of labeled samples that fitted neither; larger = less confident; whether
      the label is wrong.
    risk, coverage, confidence: what shall be guaranteed: the largest share of answers that may be
      wrong, the share of inputs that get an answer, and the probability that the guarantee holds.

    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(2000)
    >>> plan = guarantee_plan(score, rng.random(2000) < 0.02 * score, risk=0.02, coverage=0.9)
    >>> plan.errors, plan.needed, plan.high
    (14, 951, 1570)
    """
    check_shares(risk=risk, confidence=confidence)
    if not 0 < coverage <= 1:
        raise NescioError(f"coverage must lie above 0 and be at most 1, got {coverage}")
    errors = _ordered(score, wrong)[: math.ceil(coverage * len(np.atleast_1d(wrong)))]
    observed = _observed(int(errors.sum()), len(errors))
    walk = _Walk(
        risk=risk, coverage=coverage, confidence=confidence, shape=_shape(errors), seed=seed
    )
    ends = (observed.value, observed.low, observed.high)
    needed, low, high = (walk.fewest(rate) for rate in ends)
    return GuaranteePlan(
        risk=risk,
        coverage=coverage,
        confidence=confidence,
        observed=observed,
        samples=len(errors),
        errors=int(errors.sum()),
        needed=needed,
        low=low,
        high=high,
    )


def _ordered(score: Numbers, wrong: Numbers) -> Array:
    """Errors (0 or 1) by rising score; among equal scores, errors first."""
    scores = numbers("score", score, axes=1).astype(np.float64)
    errors = numbers("wrong", wrong, axes=1).astype(np.int64)
    if len(scores) != len(errors) or not len(scores):
        raise NescioError(f"{len(scores)} scores but {len(errors)} answers; give one per sample")
    if np.isnan(scores).any():
        raise NescioError(f"{int(np.isnan(scores).sum())} scores are NaN; leave those samples out")
    return errors[np.lexsort((-errors, scores))]


def _observed(errors: int, samples: int) -> Interval:
    """Half an error more than was seen: none in few samples does not mean that there is none."""
    from scipy.special import betaincinv

    ends = betaincinv(errors + 0.5, samples - errors + 0.5, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval((errors + 0.5) / (samples + 1), *map(float, ends))


def _shape(errors: Array) -> Array:
    """The distribution of errors over ranks, `(n,)`: rising, from all but half an error, to 1."""
    from sklearn.isotonic import isotonic_regression

    rates = isotonic_regression(errors.astype(np.float64)) + 0.5 / len(errors)
    total: Array = rates.cumsum()
    return np.asarray(total / total[-1])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Walk:
    """Draws of walks up to a coverage."""

    risk: float
    coverage: float
    confidence: float
    shape: Array
    seed: int

    def places(self, counts: Array) -> Array:
        """The shares of the ranks up to the coverage at which errors lie, `(DRAWS, most)`.

        The draws are the same for all numbers of samples, so that more of these are comparable.
        """
        most = max(1, int(counts.max()))
        rng = np.random.default_rng(derive(self.seed, "plan", "ranks"))
        grid = np.linspace(0, 1, len(self.shape) + 1)
        found = np.interp(rng.random((most, DRAWS)), np.concatenate([[0.0], self.shape]), grid)
        return np.where(np.arange(most)[:, None] < counts, found, np.inf).T

    @cached_property
    def least(self) -> Array:
        """The fewest ranks that show the risk with 0, 1, 2, ... errors: `fewest` of each."""
        from scipy.stats import nbinom

        errors = np.arange(2 * ERRORS + 1)
        return np.asarray(errors + 1 + nbinom.ppf(self.confidence, errors + 1, self.risk))

    def fewest(self, rate: float) -> int | None:
        """The smallest number of samples with which enough walks arrive; None: none known."""
        if rate >= self.risk:
            return None
        most = min(MOST, int(ERRORS / (rate * self.coverage)))
        low = high = math.ceil(fewest(self.risk, self.confidence) / self.coverage)
        while self.arriving(high, rate) < POWER:
            low, high = high, 2 * high
            if low >= most:
                return None
        while high - low > max(1, low // 200):
            middle = (low + high) // 2
            low, high = (low, middle) if self.arriving(middle, rate) >= POWER else (middle, high)
        return rounded_up(high)

    def arriving(self, samples: int, rate: float) -> float:
        """The share of walks with this number of samples that pass every test."""
        from scipy.stats import binom

        ranks = math.ceil(self.coverage * samples)
        first = min(first_rank(samples, self.risk, self.confidence), ranks)
        uniform = np.random.default_rng(derive(self.seed, "plan", "errors")).random(DRAWS)
        counts = binom.ppf(uniform, ranks, rate).clip(max=2 * ERRORS)
        at = np.sort(np.ceil(self.places(counts) * ranks).clip(min=1), axis=1)  # ranks of errors
        needed = self.least[1 : at.shape[1] + 1]  # ranks that forgive it and those before it
        fine = ((at >= needed) | (at <= first) | np.isinf(at)).all(1)
        early = (at <= first).sum(1)
        return float((fine & (self.least[early] <= first)).mean())


def rounded_up(count: int) -> int:
    """To a few digits."""
    unit = int(10 ** max(0, len(str(count)) - DIGITS))
    return -(-count // unit) * unit
