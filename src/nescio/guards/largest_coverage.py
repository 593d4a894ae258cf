"""The largest coverage whose selective risk is bounded (Geifman and El-Yaniv, 2017).

Answer the k samples of smallest failure score, for k = K, K + 1, ... up to the first k at which an
exact binomial test does not show the risk (fixed-sequence testing; Angelopoulos et al., 2021,
section 4). Only the first rank K is fixed beforehand, by the number of samples and the wish; the
thresholds are the samples' own scores, so that no sample is spent on a grid. Why this is valid:

Let R(t) be the error rate of inputs with a failure score up to t; break ties at random, so that R
is continuous. Where R crosses the wished risk r, it equals r, so the error rate between two
crossings is r, too. Hence, given the numbers of samples between all crossings, the errors among the
N samples below any crossing are binomial with N and r. A threshold beyond r can only be reached
through the first crossing after the first rank, where the test must pass: with probability at most
1 - confidence. If the first rank itself lies where R > r, then the errors among the K samples are
at least as many, and the test there must pass. Nothing is assumed about the score: R need not
rise. Among ties errors are counted first, so that what passes would pass in any order.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Numbers, numbers
from nescio.metrics.resampling import lower_bound as lower_bound
from nescio.metrics.resampling import upper_bound as upper_bound

FIRST = 0.55  # the coverage that is tested first, at most, where the samples suffice
SMALL = 0.1  # the coverage that is tested first, where there are many samples
SPARE = 8  # errors that the first test should forgive before it may go down to that
RISKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # of the table

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Where to answer, and what the samples say about it.

    threshold: answer where the score is at most this; -inf: nowhere.
    samples: number of samples that the bound was computed on.
    answered: number of these with scores up to the threshold; where none is answered, of the failed
      test.
    errors: number of errors among the answered samples.
    bound: the error rate among answered inputs is at most this, with the confidence.
    needed: number of samples that would be enough; None: no number of them.
    at_risks: where nothing is answered, larger risks, and the share of the samples that each of
      them would answer.
    """

    threshold: float
    samples: int
    answered: int
    errors: int
    bound: float
    needed: int | None
    at_risks: tuple[tuple[float, float], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether some inputs are answered."""
        return self.threshold > -math.inf


NOTHING = Coverage(threshold=-math.inf, samples=0, answered=0, errors=0, bound=1.0, needed=None)


def largest_coverage(
    score: Numbers,
    wrong: Numbers,
    *,
    risk: float,
    confidence: float = 0.95,
    room: Numbers | float = 0.0,
) -> Coverage:
    """The largest threshold with at most `risk` errors among the answered inputs.

    The error rate of the inputs with a score up to the threshold is at most `risk`, with
    probability at least `confidence` over the draw of the samples, if they are independent and
    from the distribution that is met later. Nothing is assumed about the score, except that it was
    not fitted on these samples.

    score: failure scores, `(N,)`; larger = less confident.
    wrong: whether each answer is wrong, `(N,)`.
    risk: the largest share of answers that may be wrong.
    confidence: the probability with which the samples must show the risk.
    room: how far above the score of a sample the threshold lies, one number or one per sample.
    """
    check_shares(risk=risk, confidence=confidence)
    scores, errors, slack = _read(score, wrong, room)
    order = np.lexsort((-errors, scores))
    scores, total, reach = scores[order], errors[order].cumsum(), (scores + slack)[order]
    found = _walk(scores, total, reach, risk, confidence)
    if found.holds:
        return found
    larger = [(one, _walk(scores, total, reach, one, confidence)) for one in RISKS if one > risk]
    shares = ((one, own.answered / own.samples if own.holds else 0.0) for one, own in larger)
    return replace(found, at_risks=tuple(shares))


def whole_or_largest(
    score: Numbers,
    wrong: Numbers,
    *,
    risk: float,
    confidence: float = 0.95,
    room: Numbers | float = 0.0,
) -> Coverage:
    """All inputs if these can be answered, otherwise the largest coverage.

    For scores that say little about errors, where the walk from small coverages often ends early by
    chance, and all samples together show most. Each of the two may fail with half of the
    probability 1 - confidence, so that both hold together with the whole of it.
    """
    half = 1 - (1 - confidence) / 2
    whole = all_or_none(wrong, risk=risk, confidence=half)
    if whole.holds:
        return whole
    return largest_coverage(score, wrong, risk=risk, confidence=half, room=room)


def all_or_none(wrong: Numbers, *, risk: float, confidence: float = 0.95) -> Coverage:
    """Answer every input or none, as one exact binomial test says: of a score that is constant."""
    check_shares(risk=risk, confidence=confidence)
    errors = numbers("wrong", wrong, axes=1).astype(np.int64)
    samples, total = len(errors), int(errors.sum())
    levels = [one for one in RISKS if one > risk]
    bound = float(upper_bound(total, samples, confidence))
    holds = bound <= risk
    wish = {"risk": risk, "confidence": confidence}
    return Coverage(
        threshold=math.inf if holds else -math.inf,
        samples=samples,
        answered=samples,
        errors=total,
        bound=bound,
        needed=samples if holds else enough(samples, samples, total, **wish),
        at_risks=() if holds else tuple((one, float(bound <= one)) for one in levels),
    )


def _walk(scores: Array, total: Array, reach: Array, risk: float, confidence: float) -> Coverage:
    """From the first rank upwards; scores ascending, and the errors among the first of them."""
    samples = len(scores)
    first = first_rank(samples, risk, confidence)
    bounds = upper_bound(total, np.arange(1, samples + 1), confidence)
    failed = np.flatnonzero(bounds[first - 1 :] > risk)
    passed = first - 1 + int(failed[0]) if len(failed) else samples  # may be answered
    threshold, answered = (math.inf, samples) if passed == samples else (-math.inf, passed + 1)
    counts = np.searchsorted(scores, reach[first:passed], side="right")  # up to each threshold
    within = np.flatnonzero(counts <= passed)
    if passed < samples and len(within):
        threshold, answered = float(reach[first + within[-1]]), int(counts[within[-1]])
    wish, wrongly = {"risk": risk, "confidence": confidence}, int(total[answered - 1])
    return Coverage(
        threshold=threshold,
        samples=samples,
        answered=answered,
        errors=wrongly,
        bound=float(bounds[answered - 1]),
        needed=samples if threshold > -math.inf else enough(samples, answered, wrongly, **wish),
    )


def first_rank(samples: int, risk: float, confidence: float) -> int:
    """How many of the `samples` the first test of a `risk` at a `confidence` answers.

    It begins well below the coverage that may be reached, with enough samples that a few errors
    by chance do not end it; and not with one sample more than these errors need. Of few
    samples it is the fewest that can show the risk at all, or all of them.
    """
    most = min(FIRST * samples, max(SMALL * samples, fewest(risk, confidence, SPARE)))
    forgiven = upper_bound(np.arange(math.ceil(risk * most)), int(most), confidence) <= risk
    least = fewest(risk, confidence, max(0, int(forgiven.sum()) - 1))
    return min(least, samples)


def fewest(risk: float, confidence: float, errors: int = 0) -> int:
    """The fewest answered samples that can show the risk, if this many of them are wrong."""
    check_shares(risk=risk, confidence=confidence)
    return _first(lambda count: upper_bound(errors, count, confidence) <= risk, errors + 1)


def enough(
    samples: int, answered: int, errors: int, *, risk: float, confidence: float
) -> int | None:
    """How many samples would show the risk if the share of answers and of errors stayed.

    Where there are too few even for no error, it is the fewest, unless the errors show already that
    the risk is larger. None: the share of errors is not below the risk, so more of them would not
    help.
    """
    least = fewest(risk, confidence)
    if samples < least and lower_bound(errors, answered, confidence) <= risk:
        return least
    if answered and errors / answered >= risk:
        return None
    share, rate = (answered or 1) / max(samples, 1), errors / (answered or 1)
    count = _first(lambda count: upper_bound(rate * count, count, confidence) <= risk, least)
    return math.ceil(count / share)


def _first(shows: Callable[[int], Any], least: int) -> int:
    """The smallest number from `least` on that shows it; all larger ones do."""
    high = least
    while not shows(high):
        high *= 2
    return bisect_left(range(high), True, least, key=lambda count: bool(shows(count)))


def check_shares(**shares: float) -> None:
    """Refuse a share or a probability that does not lie between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            raise NescioError(f"{name} must lie between 0 and 1, got {value}")


def _read(score: Numbers, wrong: Numbers, room: Numbers | float) -> tuple[Array, Array, Array]:
    scores = numbers("score", score, axes=1).astype(np.float64)
    errors = numbers("wrong", wrong, axes=1).astype(np.int64)
    if len(scores) != len(errors):
        raise NescioError(f"{len(scores)} scores but {len(errors)} answers; give one per sample")
    if np.isnan(scores).any():
        raise NescioError(f"{int(np.isnan(scores).sum())} scores are NaN; leave those samples out")
    if ((errors != 0) & (errors != 1)).any():
        raise NescioError("wrong must be 0 or 1, one per sample")
    slack = np.broadcast_to(np.asarray(room, dtype=np.float64), scores.shape)
    if not (slack >= 0).all():
        raise NescioError("room must be 0 or more")
    return scores, errors, slack
