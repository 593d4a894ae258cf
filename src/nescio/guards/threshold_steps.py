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
    """What is answered below one threshold, with exact 95 % intervals of this step alone."""

    threshold: float | None  # answer where the score is below it; None: everywhere, or nowhere
    answered: int
    errors: int  # of the answered ones
    coverage: Interval  # share of all samples that are answered
    risk: Interval | None  # share of the answers that are wrong; None: nothing is answered
    bound: float  # the risk is at most this at all steps at once, with the confidence
    false_alarms: Interval | None  # share of right labels that are withheld; None: none is right
    abstained: Mapping[str, float]  # share of each OOD set that gets no answer


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Steps from answering all that is not OOD to answering nothing."""

    score: str  # which failure score
    samples: int
    called_ood: int  # of the samples: never answered, whatever the threshold
    confidence: float  # of the bounds
    steps: tuple[ThresholdStep, ...]
    own: int | None  # the step of the guard
    ood: Mapping[str, int]  # inputs of each OOD set


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

    score, wrong: `(N,)` of samples that fitted nothing; larger = less confident; whether the label
      is wrong. A score that is NaN is never answered.
    called_ood: `(N,)` whether a sample is called OOD, and so never answered.
    ood: by name, the failure scores of OOD inputs, and whether they are called OOD.
    own: the threshold of the guard, up to which it answers; it becomes a step.
    first: the share that is withheld at the first step, known beforehand, such as the rate of
      false alarms: steps begin there.

    >>> found = threshold_steps([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1])
    >>> [(step.answered, step.errors) for step in found.steps[::10]]
    [(4, 1), (3, 0), (3, 0), (2, 0), (0, 0)]
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
