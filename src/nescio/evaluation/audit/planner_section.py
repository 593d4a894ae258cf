"""How many more labeled samples it would take to guarantee more."""

import math
from dataclasses import dataclass
from typing import Any

from nescio.applications import active_learning
from nescio.core import NescioError
from nescio.evaluation.audit.guard_section import CONFIDENCE, FALSE_ALARM
from nescio.evaluation.audit.measured_scores import measured_scores
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.guards import splitting

RISKS = {CLASSES: (0.005, 0.01, 0.02, 0.05), NUMBERS: (0.05, 0.1, 0.2)}
COVERAGES = (0.8, 0.9, 0.95)
DIGITS = 3  # of a number of samples
MOST, ERRORS = 20_000, 500  # samples and errors beyond which nothing is planned


@dataclass(frozen=True, kw_only=True)
class PlannedGuarantee:
    """A guarantee, and how many calibration samples it takes; None: no number, or too many.

    risk: largest share of answers that may be wrong.
    coverage: share of inputs like the calibration data that are answered.
    error: error rate at this coverage, as the test samples show it.
    needed: calibration samples in all.
    low, high: the same if the error rate is at the lower or the upper end of its 90 % interval.
    more: calibration samples beyond those that there are.
    most: larger numbers of samples were not searched.
    """

    risk: float
    coverage: float
    error: float
    needed: int | None
    low: int | None
    high: int | None
    more: int | None
    most: int


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Guarantees that could be given, and what each takes.

    score: name of the failure score.
    samples: number of samples that the error rates were observed on.
    calibration: number of calibration samples now.
    false_alarm: largest share of in-distribution inputs that may be called OOD.
    confidence: probability with which the calibration data must show the risk.
    chance: probability that the planned number is enough.
    plans: the guarantees.
    """

    score: str
    samples: int
    calibration: int
    false_alarm: float
    confidence: float
    chance: float
    plans: tuple[PlannedGuarantee, ...]


@section(
    "planner",
    title="What it would take to guarantee more",
    place=27,
    tasks=(CLASSES, NUMBERS),
)
def planner_section(material: Material) -> Planner:
    """How many samples to label for some risks and coverages."""
    own = measured_scores(material)
    kept = ~own.never
    if not kept.any():
        raise NescioError("the guard calls all test samples OOD: nothing is known about errors")
    guard, now = material.guard, len(material.held.fitting[0])
    wish: dict[str, Any] = {
        "false_alarm": FALSE_ALARM if guard is None else guard.false_alarm,
        "confidence": CONFIDENCE if guard is None else guard.confidence,
        "tuning": 0.0,  # what fits or tunes is counted below
    }
    confidence = wish["confidence"]
    if material.task == NUMBERS:  # the answer to all inputs is tested too: half of 1 - confidence
        wish["confidence"] = (1 + confidence) / 2
    share, plans = _share_that_shows(material), []
    for risk in RISKS[material.task]:
        for coverage in COVERAGES:
            most = min(MOST, int(ERRORS / risk))
            wished = {"risk": risk, "coverage": coverage, "most": most, **wish}
            found = active_learning.plan_guarantee(own.score[kept], own.wrong[kept], **wished)
            needed, low, high = (_whole(n / share) for n in (found.needed, found.low, found.high))
            plans.append(
                PlannedGuarantee(
                    risk=risk,
                    coverage=coverage,
                    error=found.error,
                    needed=needed,
                    low=low,
                    high=high,
                    more=None if needed is None else max(0, needed - now),
                    most=most,
                )
            )
    return Planner(
        score=own.name,
        samples=int(kept.sum()),
        calibration=now,
        false_alarm=wish["false_alarm"],
        confidence=confidence,
        chance=found.chance,
        plans=tuple(plans),
    )


def _whole(count: float) -> int | None:
    """Upwards to a few digits; None: no number."""
    if math.isinf(count):
        return None
    unit = 10 ** max(0, len(str(math.ceil(count))) - DIGITS)
    return int(math.ceil(count / unit) * unit)


def _share_that_shows(material: Material) -> float:
    """The share of the calibration samples that show guarantees; the others fit something."""
    if material.guard is None:
        return 1.0 if material.train is not None else 1 - splitting.FITTING
    notes = material.guard.notes
    return float(notes["guarantee_samples"] / notes["calibration"])
