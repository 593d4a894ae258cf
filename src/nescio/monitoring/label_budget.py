"""Which answers to label: each with a known probability, more often where an error is likelier.

For the fewest labels until a bound on the risk holds, an answer with error probability g is drawn
with a probability of about 1/2 + sqrt(1/4 + c g) times a constant: like a square root where errors
are frequent, as in Neyman's allocation, and never below a floor. The floor is most of the budget,
because a confident answer that is wrong counts 1 / probability: a small floor makes that large and
the bound wide (the labels that rule out hidden errors among confident answers cannot be saved).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, numbers

Floats = NDArray[np.float64]
FLOOR = 0.75  # of the budget: what every answer gets
TILT = 1.5  # over the risk: c above; near the optimum for half the risk
START, WINDOW = 100, 10_000  # answers that the start counts for, and that the mean remembers


@dataclass(frozen=True, kw_only=True)
class LabelBudget:
    """How many answers may be labeled, and the running mean that keeps to it.

    budget: share of the answers that is drawn for labels, on average.
    risk: the risk that labels should show; where errors of that order begin to count more.
    floor: share of the budget that all answers get alike; 1 draws uniformly.
    count: answers so far.
    mean: running mean of what the rest of the budget is shared by.
    """

    budget: float
    risk: float
    floor: float
    count: int
    mean: float

    @property
    def least(self) -> float:
        """The smallest probability with which an answer is drawn."""
        return self.budget * self.floor

    def after(self, error_probability: Any) -> tuple[Floats, "LabelBudget"]:
        """Probabilities with which the next answers are drawn, and the budget after them.

        Each depends on the answers before it and on its own error probability, so results do not
        depend on how the stream is cut.
        error_probability: 1 - the calibrated probability of each answer, `(N,)`; NaN where it is
          not known, which counts as the risk.
        """
        if np.size(error_probability) == 0:
            return np.empty(0), self
        given = numbers("error_probability", error_probability, axes=1).astype(np.float64)
        errors = np.clip(np.where(np.isnan(given), self.risk, given), 0.0, 1.0)
        tilts = _tilt(errors, self.risk).tolist()
        *_, (mean, _) = means = list(_means(self.mean, self.count, tilts))
        before = np.array([self.mean, *(one for one, _ in means[:-1])])
        shares = self.floor + (1 - self.floor) * np.array(tilts) / before
        drawn = np.clip(self.budget * shares, self.least, 1.0)
        return drawn, replace(self, count=self.count + len(tilts), mean=mean)


def label_budget(budget: float = 0.05, *, risk: float = 0.02, floor: float = FLOOR) -> LabelBudget:
    """A budget of labels that is spent where errors are likely; `after` gives the probabilities.

    >>> drawn, _ = label_budget(0.05).after([0.0, 0.0, 0.3])
    >>> bool(drawn[0] == 0.0375), bool(drawn[2] > drawn[1])
    (True, True)

    budget: share of the answers that is drawn for labels, on average.
    risk: the risk that labels should show.
    floor: share of the budget that all answers get alike; 1 draws uniformly. Above half of the
      answers it is larger, so that a budget of 1 draws all.
    """
    for name, value in {"budget": budget, "risk": risk, "floor": floor}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise NescioError(f"`{name}` must be above 0 and at most 1, got {value!r}")
    floor = max(floor, 2 * budget - 1)  # where most answers are drawn, little is left to share
    start = float(_tilt(np.array([risk / 2]), risk)[0])
    return LabelBudget(budget=budget, risk=risk, floor=floor, count=0, mean=start)


def propensities(
    probability: Any, budget: float = 0.05, *, risk: float = 0.02, floor: float = FLOOR
) -> Floats:
    """The probabilities with which the answers of a whole stream are drawn for labels.

    >>> drawn = propensities(np.full(1000, 0.99), budget=0.05)
    >>> round(float(drawn[-1]), 3)
    0.05

    probability: the calibrated probability of each answer, in the order of the stream.
    budget: share of the answers that is drawn for labels, on average.
    risk: the risk that labels should show.
    floor: share of the budget that all answers get alike; 1 draws uniformly.
    """
    errors = 1 - numbers("probability", probability, axes=1).astype(np.float64)
    return label_budget(budget, risk=risk, floor=floor).after(errors)[0]


def _tilt(errors: Floats, risk: float) -> Floats:
    result: Floats = np.sqrt(0.25 + TILT / risk * errors) - 0.5
    return result


def _means(mean: float, count: int, values: list[float]) -> Iterator[tuple[float, int]]:
    """The running mean after each value: of all of them first, then of the last in the main."""
    for value in values:
        count += 1
        mean += (value - mean) / min(START + count, WINDOW)
        mean = max(mean, math.ulp(1.0))
        yield mean, count
