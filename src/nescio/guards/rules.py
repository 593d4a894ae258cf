"""The rules of one group of inputs: OOD by p-value, unsure by threshold.

The same samples serve both. The inputs that are not OOD have scores below the
k-th largest calibration score t. Given t and the number of samples below it, those are independent
draws from the inputs with scores below t (a property of order statistics, ties included). So
errors among them are binomial, and the bound of the risk is exact, though t came from the same
samples. An input that scores t is neither: it is unsure.

A network's last bits depend on the size of the batch. So a score counts as t where rounding may
have made the difference, and a threshold lies that much above the failure score it comes from:
inputs that come again and again stay on one side, alone or in a batch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nescio.conformal import needed
from nescio.conformal.score_limits import allowed, rounding
from nescio.core import NescioError
from nescio.guards.decisions import CODES
from nescio.guards.largest_coverage import (
    NOTHING,
    Coverage,
    largest_coverage,
)

Search = Callable[..., Coverage]  # as `largest_coverage`


@dataclass(frozen=True, eq=False)
class Scored:
    """Samples as the rules read them."""

    score: Tensor  # (n,) of the detector, float64
    failure_score: Tensor  # (n,) larger = the label is more likely wrong, float64
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
    limit: float  # inputs with larger scores are OOD
    coverage: Coverage  # where to answer

    def read(self, score: Tensor, failure_score: Tensor) -> tuple[Tensor, Tensor]:
        """p-values `(N,)`, and which rule decides about each input: an index into RULES.

        A p-value is (1 + #{calibration scores at least as large, up to rounding}) / (n + 1).
        """
        known, room = self.scores.to(score.device), rounding(score)
        lower = score - room
        above = len(known) + 1 - torch.searchsorted(known, lower)
        unsure = "failure_score" if self.coverage.holds else "no guarantee"
        sure = failure_score <= self.coverage.threshold
        rule = torch.where(sure, CODES["sure enough"], CODES[unsure])
        in_dist = score + room < self.limit
        if not in_dist.all():
            rule[~in_dist] = CODES["tie"]
            rule[lower > self.limit] = CODES["p-value"]
        return above.double() / (len(known) + 1), rule

    def at_risks(self) -> list[tuple[float, float]]:
        """Where nothing is answered: larger risks, and the coverage that each would have.

        From the first risk that answers something to the first that answers as much as any.
        """
        scale = self.coverage.samples / len(self.scores)  # the others are OOD
        rows = [(risk, scale * share) for risk, share in self.coverage.at_risks if share > 0]
        shares = [share for _, share in rows]
        return rows[: shares.index(max(shares)) + 1] if rows else []


def fit_rule(
    group: str,
    samples: Scored,
    *,
    false_alarm: float,
    risk: float,
    confidence: float,
    most: float = math.inf,
    search: Search = largest_coverage,
) -> Rule:
    """The rules from calibration samples, none of which fitted what scores them.

    search: what finds the threshold of the failure score, and shows its risk.
    most: failure scores above it are never answered, a wish that was fixed beforehand. Given their
    number, the samples below it are independent draws of such inputs, so the bound is exact, too.
    """
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
    wanted = samples.score + rounding(samples.score) < limit  # by more than rounding
    in_dist = samples[wanted & (samples.failure_score <= most)]
    if not len(in_dist):
        return Rule(group, scores, limit, NOTHING)
    wish = {"risk": risk, "confidence": confidence}
    room, failure_score = rounding(in_dist.failure_score), in_dist.failure_score
    coverage = search(failure_score, in_dist.wrong, **wish, room=room)
    coverage = replace(coverage, threshold=min(coverage.threshold, most))
    return Rule(group, scores, limit, coverage)


def rate_interval(samples: int, false_alarm: float) -> tuple[float, float]:
    """Where the false-alarm rate of one calibration set lies, in 95 of 100: a beta law."""
    from scipy.special import betaincinv

    over = allowed(samples, false_alarm)
    low, high = betaincinv(over, samples + 1 - over, [0.025, 0.975]).tolist()
    return low, high
