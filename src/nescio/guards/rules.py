"""The rules of one group of inputs: outside by p-value, unsure by threshold.

The same samples serve both. The inputs that are not outside have scores below the
k-th largest calibration score t. Given t and the number of samples below it, those are independent
draws from the inputs with scores below t (a property of order statistics, ties included). So
errors among them are binomial, and the bound of the risk is exact, though t came from the same
samples. An input that scores t is neither: it is unsure.

A network's last bits depend on the size of the batch. So a score counts as t where rounding may
have made the difference, and a threshold of doubt lies that much above the doubt it comes from:
inputs that come again and again stay on one side, alone or in a batch.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import needed, p_values
from nescio.conformal.exact_quantiles import allowed, rounding
from nescio.core import NescioError
from nescio.guards.decisions import CODES
from nescio.guards.selective_rule import Coverage, coverages, largest_coverage


@dataclass(frozen=True, eq=False)
class Scored:
    """Samples as the rules read them."""

    score: Tensor  # (n,) of the detector, float64
    failure_score: Tensor  # (n,) that the label is right, float64
    wrong: Tensor  # (n,) whether the label is

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, chosen: Tensor) -> "Scored":
        return Scored(self.score[chosen], self.failure_score[chosen], self.wrong[chosen])


@dataclass(frozen=True, eq=False)
class Rule:
    """How inputs of a group are decided."""

    group: str
    scores: Tensor  # (n,) of the detector on the calibration samples, ascending
    limit: float  # inputs with larger scores are outside
    coverage: Coverage  # where to answer

    def p_values(self, score: Tensor) -> Tensor:
        """(1 + #{calibration scores at least as large, up to rounding}) / (n + 1), `(N,)`."""
        return p_values(self.scores, score - rounding(score))

    def speaking(self, score: Tensor, failure_score: Tensor) -> Tensor:
        """Which rule speaks for each input, `(N,)`: a place in RULES."""
        none = "failure_score" if self.coverage.holds else "no promise"
        found = torch.full_like(score, CODES[none], dtype=torch.int64)
        found[failure_score <= self.coverage.threshold] = CODES["sure enough"]
        found[~is_in_dist(score, self.limit)] = CODES["tie"]
        found[score - rounding(score) > self.limit] = CODES["p-value"]
        return found


def is_in_dist(score: Tensor, limit: float) -> Tensor:
    """Which scores are below the limit by more than rounding, `(N,)`."""
    return score + rounding(score) < limit


def fit_rule(
    group: str,
    tuning: Scored,
    samples: Scored,
    *,
    false_alarm: float,
    risk: float,
    confidence: float,
) -> Rule:
    """The rules from the samples of the promises; `tuning` gives the grid of thresholds."""
    ood = allowed(len(samples), false_alarm)
    if not ood:
        where = f" in group {group}" if group else ""
        raise NescioError(
            f"{len(samples)} calibration samples{where} cannot show a false-alarm rate of "
            f"{false_alarm:g}: it takes at least {needed(false_alarm)}; use more, or a larger "
            "false_alarm"
        )
    scores = samples.score.sort().values
    limit = float(scores[-ood])
    in_dist = samples[is_in_dist(samples.score, limit)]
    wish: dict[str, Any] = {"risk": risk, "confidence": confidence}
    known = tuning[is_in_dist(tuning.score, limit)]  # fewer than these may be answered
    if len(in_dist) and len(tuning):
        doubts = (known if len(known) else tuning).failure_score
        grid = torch.from_numpy(coverages(doubts, samples=len(in_dist), **wish))
        grid += rounding(grid)
        coverage = largest_coverage(in_dist.failure_score, in_dist.wrong, grid=grid, **wish)
    else:
        coverage = Coverage(-math.inf, 0, 0, 0, 1.0, None)
    return Rule(group, scores, limit, coverage)
