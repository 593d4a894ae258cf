"""How many more labeled samples it would take to guarantee more."""

import math
from dataclasses import dataclass

from nescio.core import NescioError
from nescio.evaluation.audit.guard_section import CONFIDENCE, FALSE_ALARM
from nescio.evaluation.audit.measured_scores import measured_scores
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.guards import guarantee_plan, rounded_up
from nescio.guards.splitting import FITTING
from nescio.metrics import Interval

RISKS = {CLASSES: (0.005, 0.01, 0.02, 0.05), NUMBERS: (0.05, 0.1, 0.2)}
COVERAGES = (0.8, 0.9, 0.95)


@dataclass(frozen=True, kw_only=True)
class PlannedGuarantee:
    """A guarantee, and how many calibration samples it takes; None: no number is enough."""

    risk: float
    coverage: float  # share of all inputs like the calibration data
    observed: Interval  # the error rate at this coverage, with its interval of 80 %
    samples: int  # that it was observed on
    errors: int
    needed: int | None  # calibration samples in all
    low: int | None  # at the lower end of the observed interval
    high: int | None  # at the upper end
    more: int | None  # than there are


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Guarantees that could be given, and what each takes."""

    score: str
    calibration: int  # samples now
    false_alarm: float
    confidence: float
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
    score, wrong = own.score[kept], own.wrong[kept]
    guard, now = material.guard, len(material.held.fitting[0])
    alarm = FALSE_ALARM if guard is None else guard.false_alarm
    confidence = CONFIDENCE if guard is None else guard.confidence
    # A regression tests the answer to all inputs first, with half of the probability to fail.
    tested = confidence if material.task == CLASSES else (1 + confidence) / 2
    share = _share_that_shows(material) * (1 - alarm)
    plans = []
    for risk in RISKS[material.task]:
        for coverage in COVERAGES:
            wish = {"risk": risk, "coverage": min(1.0, coverage / (1 - alarm))}
            found = guarantee_plan(score, wrong, confidence=tested, **wish, seed=material.seed)
            needed, low, high = (
                None if count is None else rounded_up(math.ceil(count / share))
                for count in (found.needed, found.low, found.high)
            )
            plans.append(
                PlannedGuarantee(
                    risk=risk,
                    coverage=coverage,
                    observed=found.observed,
                    samples=found.samples,
                    errors=found.errors,
                    needed=needed,
                    low=low,
                    high=high,
                    more=None if needed is None else max(0, needed - now),
                )
            )
    return Planner(
        score=own.name,
        calibration=now,
        false_alarm=alarm,
        confidence=confidence,
        plans=tuple(plans),
    )


def _share_that_shows(material: Material) -> float:
    """The share of the calibration samples that show guarantees; the others fit something."""
    if material.guard is None:
        return 1.0 if material.train is not None else 1 - FITTING
    notes = material.guard.notes
    return float(notes["guarantee_samples"] / notes["calibration"])
