"""The largest coverage whose error rate is bounded (Geifman and El-Yaniv, 2017; exact bounds).

One-sided Clopper-Pearson bounds, tested in an order that is fixed beforehand: the first failure
ends it, so no level is spent on the number of tests (Angelopoulos et al., 2021, section 4).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.metrics.as_arrays import Numbers, numbers
from nescio.metrics.intervals import lower_bound
from nescio.metrics.intervals import upper_bound as upper_bound

STEPS = 200  # coverages of a grid
SPREAD = 3.0  # standard deviations by which the first coverage is expected to suffice

Array = NDArray[Any]


@dataclass(frozen=True)
class Coverage:
    """Where to answer, and what the samples say about it."""

    threshold: float  # answer where the score is at most this; -inf: nowhere
    samples: int  # samples that the bound was computed on
    answered: int  # of these, with scores up to the threshold; of the first coverage where none
    errors: int  # of the answered ones
    bound: float  # the error rate among answered inputs is at most this, with the confidence
    needed: int | None  # samples that would be enough; None: no number of them

    @property
    def holds(self) -> bool:
        """Whether some inputs are answered."""
        return self.threshold > -math.inf


def largest_coverage(
    score: Numbers, wrong: Numbers, *, risk: float, confidence: float = 0.95, grid: Numbers
) -> Coverage:
    """The largest threshold of `grid` with at most `risk` errors among the answered inputs.

    The error rate of the inputs with a score up to the threshold is at most `risk`, with
    probability at least `confidence` over the draw of the samples, if they are independent and
    from the distribution that is met later. Nothing is assumed about the score.

    score, wrong: one a sample; larger = less sure; whether the answer is wrong.
    grid: thresholds in ascending order, which must come from other samples: see `coverages`.
    """
    check_wish(risk, confidence)
    scores, errors, levels = _read(score, wrong, grid)
    order = np.argsort(scores)
    counts = np.searchsorted(scores[order], levels, side="right")
    total = np.concatenate([[0], np.cumsum(errors[order])])[counts]
    bounds = upper_bound(total, counts, confidence)
    failed = np.flatnonzero(bounds > risk)
    passed = int(failed[0]) if len(failed) else len(levels)
    place = max(passed - 1, 0)  # of the first coverage where even that fails
    seen = len(scores), int(counts[place]), int(total[place])
    threshold = float(levels[place]) if passed else -math.inf
    needed = len(scores) if passed else enough(*seen, risk=risk, confidence=confidence)
    return Coverage(threshold, *seen, float(bounds[place]), needed)


def coverages(
    score: Numbers, *, samples: int, risk: float, confidence: float = 0.95, steps: int = STEPS
) -> Array:
    """Thresholds to be tested on `samples` other samples: quantiles of `score`, ascending.

    The first is the smallest coverage that can pass: where so many of the samples are expected to
    be answered that no error among them would be enough, with room for their chance. The last is
    to answer everything.
    """
    check_wish(risk, confidence)
    values = np.sort(numbers("score", score, axes=1).astype(np.float64))
    least = fewest(risk, confidence)
    level = np.arange(1, steps + 1) / steps
    spread = np.sqrt(level * (1 - level) * (1 / len(values) + 1 / max(samples, 1)))
    able = samples * (level - SPREAD * spread) >= least
    able[-1] = True  # all of them: the most that can be asked
    places = np.ceil(level * len(values)).astype(np.int64) - 1
    grid = values[places]
    grid[-1] = math.inf
    return np.unique(grid[able])


def fewest(risk: float, confidence: float) -> int:
    """The fewest answered samples that can show the risk: so many, without one error."""
    check_wish(risk, confidence)
    count = max(1, math.ceil(math.log(1 - confidence) / math.log1p(-risk) - 1e-9))
    return count + int(upper_bound(0, count, confidence) > risk)


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
    low = high = least
    while upper_bound(rate * high, high, confidence) > risk:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if upper_bound(rate * middle, middle, confidence) > risk:
            low = middle
        else:
            high = middle
    return math.ceil(high / share)


def check_wish(risk: float, confidence: float) -> None:
    """Refuse a risk or a confidence that is no probability between 0 and 1."""
    for name, value in (("risk", risk), ("confidence", confidence)):
        if not 0 < value < 1:
            raise NescioError(f"{name} must lie between 0 and 1, got {value}")


def _read(score: Numbers, wrong: Numbers, grid: Numbers) -> tuple[Array, Array, Array]:
    scores = numbers("score", score, axes=1).astype(np.float64)
    errors = numbers("wrong", wrong, axes=1).astype(np.int64)
    levels = np.asarray(grid, dtype=np.float64)
    if len(scores) != len(errors):
        raise NescioError(f"{len(scores)} scores but {len(errors)} answers; one a sample")
    if np.isnan(scores).any():
        raise NescioError(f"{int(np.isnan(scores).sum())} scores are NaN; leave those samples out")
    if ((errors != 0) & (errors != 1)).any():
        raise NescioError("wrong must be 0 or 1, one a sample")
    if levels.ndim != 1 or not len(levels) or not (np.diff(levels) >= 0).all():
        raise NescioError("grid must be thresholds in ascending order: see coverages")
    return scores, errors, levels
