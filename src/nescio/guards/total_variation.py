"""What a guard's guarantee survives: any change of the inputs up to a distance in total variation.

Let P be the distribution of the calibration data, a = P(answered), R = P(wrong | answered), and Q
any other distribution with |Q(A) - P(A)| <= d for all events A, the total variation. Then

    Q(wrong | answered) <= R' = R + d / a        (where R' <= 1).

Proof: f = [answered and wrong] - R' [answered] takes the values 1 - R', -R' and 0, so its range is
1, and the mean of a function of range 1 changes by at most d: E_Q f <= E_P f + d = a (R - R') + d =
0. Hence Q(answered and wrong) <= R' Q(answered). It is sharp: Q may move the mass d from right
answers to wrong ones. So a guarantee of risk r survives d = a (r - R), and nothing more.

a and R are unknown; exact binomial bounds on samples that fitted nothing, each with a part of the
probability 1 - confidence, give a lower bound of d.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context

from nescio.core import NescioError
from nescio.guards.largest_coverage import check_shares, lower_bound, upper_bound

DISTANCES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
OF_RISK, OF_COVERAGE, OF_OOD = 0.8, 0.1, 0.1  # of the probability that a bound fails


@dataclass(frozen=True, kw_only=True)
class AtDistance:
    """What still holds, with the confidence, after any change of the inputs by a distance."""

    distance: float
    risk: float  # at most
    coverage: float  # at least
    false_alarm: float | None = None  # at most, on average over calibration data


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """The share of the inputs that may come from one OOD set, whose answers all count as wrong."""

    inputs: int
    answered: int  # of these inputs
    share: float


@dataclass(frozen=True, kw_only=True)
class ShiftBudget:
    """How far the inputs may change until a guaranteed risk is no longer shown.

    risk: the guaranteed risk.
    confidence: the probability with which everything below is shown.
    samples: number of samples.
    answered: number of answered samples.
    errors: number of errors among the answered samples.
    least_coverage: the share of answered inputs is at least this.
    largest_risk: the error rate among the answers is at most this.
    distance: distance in total variation: the guarantee survives every change up to it.
    at: what remains of the guarantee after larger changes.
    ood: by OOD set, the share of the inputs that may come from it.
    """

    risk: float
    confidence: float
    samples: int
    answered: int
    errors: int
    least_coverage: float
    largest_risk: float
    distance: float
    at: tuple[AtDistance, ...]
    ood: Mapping[str, Mixed] = field(default_factory=dict)

    @property
    def certificates(self) -> tuple[str, ...]:
        """What is proved, with its assumption; nothing where no change is survived."""
        if not self.distance:
            return ()
        shown = Context(prec=2, rounding=ROUND_FLOOR).create_decimal_from_float(self.distance)
        return (
            f"With a confidence of {100 * self.confidence:g} %, at most {100 * self.risk:g} % of "
            "the answers are wrong under any change of the inputs up to a total variation of "
            f"{shown:f}, shown by {self.errors} wrong of {self.answered:,} answers to "
            f"{self.samples:,} samples, if these are independent draws of the unchanged inputs.",
        )


def shift_budget(
    answered: int,
    errors: int,
    samples: int,
    *,
    risk: float,
    confidence: float = 0.95,
    false_alarm: float | None = None,
    ood: Mapping[str, tuple[int, int]] | None = None,
) -> ShiftBudget:
    """How far, in total variation, the inputs may change while a risk stays guaranteed.

    With probability at least `confidence` over the samples, the error rate among answered inputs is
    at most `risk` under every distribution of inputs and labels within this distance of theirs. A
    distance of 0.01 means that any hundredth of the inputs may be replaced by anything. It is 0
    where the samples do not show the risk without any change.

    >>> found = shift_budget(900, 2, 1000, risk=0.02)
    >>> round(found.distance, 4), round(found.at[4].risk, 4)
    (0.0111, 0.0188)

    answered, errors, samples: counts, of samples that neither network nor guard was fitted on.
    risk: the guaranteed risk.
    confidence: the probability with which everything is shown.
    false_alarm: the guaranteed rate of false alarms; None: there is none.
    ood: by name, how many of how many OOD inputs are answered; their bounds hold one by one.
    """
    check_shares(risk=risk, confidence=confidence)
    if not 0 <= errors <= answered <= samples or samples < 1:
        raise NescioError(
            f"expected errors <= answered <= samples, got {errors}, {answered} and {samples}"
        )
    fails = 1 - confidence
    least = float(lower_bound(answered, samples, 1 - OF_COVERAGE * fails))
    worst = float(upper_bound(errors, answered, 1 - OF_RISK * fails))
    distance = least * max(0.0, risk - worst)
    return ShiftBudget(
        risk=risk,
        confidence=confidence,
        samples=samples,
        answered=answered,
        errors=errors,
        least_coverage=least,
        largest_risk=worst,
        distance=distance,
        at=tuple(_at(one, worst, least, false_alarm) for one in DISTANCES),
        ood={name: _mixed(*pair, distance, risk, fails) for name, pair in (ood or {}).items()},
    )


def _at(distance: float, risk: float, coverage: float, false_alarm: float | None) -> AtDistance:
    return AtDistance(
        distance=distance,
        risk=min(1.0, risk + distance / coverage) if coverage else 1.0,
        coverage=max(0.0, coverage - distance),
        false_alarm=None if false_alarm is None else min(1.0, false_alarm + distance),
    )


def _mixed(answered: int, inputs: int, distance: float, risk: float, fails: float) -> Mixed:
    """With a share s of OOD inputs, of which q are answered: (1 - s) (r a - a R) >= s q (1 - r)."""
    if not 0 <= answered <= inputs or inputs < 1:
        raise NescioError(f"expected at most all of one or more inputs, got {answered} of {inputs}")
    most = float(upper_bound(answered, inputs, 1 - OF_OOD * fails))
    return Mixed(inputs=inputs, answered=answered, share=distance / (distance + most * (1 - risk)))
