"""What a guard would do at other thresholds of its failure score: 41 steps to move through.

The thresholds are scores of the samples themselves, at ranks that only their number decides. Given
such a threshold and the number of samples below it, these are independent draws of the inputs below
it (a property of order statistics, ties included), so the errors among them are binomial and the
bounds exact. Where the threshold is chosen after looking at the risks, one bound must hold at all
steps at once: each of them may fail with a 41st of the probability (Bonferroni).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.conformal import binomial_interval
from nescio.core import NescioError, Numbers, numbers
from nescio.guards.largest_coverage import check_shares, upper_bound
from nescio.metrics import Interval

STEPS = 41
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ThresholdStep:
    """What is answered below one threshold, with exact 95 % intervals of this step alone.

    threshold: answer where the score is below it; None: everywhere, or nowhere.
    answered: number of answered samples.
    errors: number of errors among the answered samples.
    coverage: share of all samples that are answered.
    risk: share of the answers that are wrong; None: nothing is answered.
    bound: the risk is at most this at all steps at once, with the confidence.
    false_alarms: share of the samples with a correct label that are not answered; None: no label is
      correct.
    abstained: share of each OOD set that gets no answer.
    """

    threshold: float | None
    answered: int
    errors: int
    coverage: Interval
    risk: Interval | None
    bound: float
    false_alarms: Interval | None
    abstained: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Steps from answering all that is not OOD to answering nothing.

    score: name of the failure score.
    samples: number of samples.
    called_ood: number of samples that are never answered, whatever the threshold.
    confidence: the probability with which all bounds hold.
    steps: the steps.
    own: index of the guard's own step; None: unknown.
    ood: number of inputs of each OOD set.
    """

    score: str
    samples: int
    called_ood: int
    confidence: float
    steps: tuple[ThresholdStep, ...]
    own: int | None
    ood: Mapping[str, int]


def threshold_steps(
    score: Numbers,
    wrong: Numbers,
    *,
    called_ood: Numbers | None = None,
    ood: Mapping[str, tuple[Numbers, Numbers | None]] | None = None,
    own: float | None = None,
    name: str = "failure score",
    first: float = 0.0,
    confidence: float = 0.95,
) -> Thresholds:
    """Coverage, risk, false alarms and abstentions on OOD data at 41 thresholds of a score.

    >>> found = threshold_steps([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1])
    >>> [(step.answered, step.errors) for step in found.steps[::10]]
    [(4, 1), (3, 0), (3, 0), (2, 0), (0, 0)]

    score: failure scores `(N,)` of samples that fitted nothing; larger = less confident. A score
      that is NaN is never answered.
    wrong: whether each label is wrong, `(N,)`.
    called_ood: whether each sample is called OOD, and so never answered, `(N,)`; None: none is.
    ood: by name, the failure scores of OOD inputs, and whether they are called OOD.
    own: the threshold of the guard, up to which it answers; it becomes a step. None: there is no
      guard.
    name: name of the score.
    first: the share that is not answered at the first step, known beforehand, such as the rate of
      false alarms: steps begin there.
    confidence: the probability with which all bounds hold.
    """
    check_shares(confidence=confidence)
    values, out = _scores("score", score, called_ood)
    errors = numbers("wrong", wrong, axes=1).astype(bool)
    if len(errors) != len(values):
        raise NescioError(f"{len(values)} scores but {len(errors)} answers; give one per sample")
    others = {one: _scores(f"scores of {one!r}", *pair)[0] for one, pair in (ood or {}).items()}
    limits, at = _limits(np.sort(values), first, own)
    level = 1 - (1 - confidence) / STEPS
    return Thresholds(
        score=name,
        samples=len(values),
        called_ood=int(out.sum()),
        confidence=confidence,
        steps=tuple(_step(limit, values, errors, others, level) for limit in limits),
        own=at,
        ood={one: len(scores) for one, scores in others.items()},
    )


def _scores(name: str, score: Numbers, out: Numbers | None) -> tuple[Array, Array]:
    """Scores that are infinite where nothing is answered, and which are called OOD."""
    values = numbers(name, score, axes=1).astype(np.float64)
    never = np.zeros(len(values), bool) if out is None else numbers(name, out, axes=1).astype(bool)
    if len(never) != len(values):
        raise NescioError(f"{len(values)} {name} but {len(never)} decisions; give one per input")
    return np.where(never | np.isnan(values), math.inf, values), never


def _limits(ordered: Array, first: float, own: float | None) -> tuple[Sequence[float], int | None]:
    """Falling thresholds, and which is the guard's."""
    count = len(ordered)
    withheld = first + (1 - first) * (np.arange(STEPS) / (STEPS - 1)) ** 2
    ranks = np.ceil((1 - withheld) * count - 1e-9).astype(int).clip(0, count - 1)
    limits = [math.inf, *ordered[ranks[1:-1]].tolist(), -math.inf]
    if own is None:
        return limits, None
    limit = float(np.nextafter(own, math.inf)) if math.isfinite(own) else own  # own is answered
    below = [int(np.searchsorted(ordered, one)) for one in limits]
    inner = range(1, STEPS - 1) if math.isfinite(own) else range(STEPS)
    at = min(inner, key=lambda i: (abs(below[i] - np.searchsorted(ordered, limit)), i))
    at = at if math.isfinite(own) else (0 if own > 0 else STEPS - 1)
    limits[at] = limit
    order = sorted(range(STEPS), key=lambda i: -limits[i])
    return [limits[i] for i in order], order.index(at)


def _step(
    limit: float, values: Array, errors: Array, ood: Mapping[str, Array], level: float
) -> ThresholdStep:
    answered, right = values < limit, ~errors
    count, wrongly = int(answered.sum()), int((answered & errors).sum())
    withheld = int((right & ~answered).sum())
    return ThresholdStep(
        threshold=limit if math.isfinite(limit) else None,
        answered=count,
        errors=wrongly,
        coverage=binomial_interval(count, len(values)),
        risk=binomial_interval(wrongly, count) if count else None,
        bound=float(upper_bound(wrongly, count, level)),
        false_alarms=binomial_interval(withheld, int(right.sum())) if right.any() else None,
        abstained={name: float((scores >= limit).mean()) for name, scores in ood.items()},
    )
