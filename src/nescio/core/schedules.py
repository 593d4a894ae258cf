"""Schedules of learning rates and of weights: a factor as a function of (step, steps)."""

import math
from collections.abc import Callable, Sequence

from nescio.core.errors import NescioError

Schedule = Callable[[int, int], float]
RAMP = 80 / 300  # of the training: Laine and Aila, 2017


def constant(step: int, steps: int) -> float:
    """The rate as given."""
    del step, steps
    return 1.0


def cosine(step: int, steps: int) -> float:
    """From the full rate to zero along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * step / steps))


def drops(at: Sequence[float] = (0.5, 0.75, 0.9), *, by: float = 0.1) -> Schedule:
    """Multiply the rate by `by` at each of the given shares of the training."""

    def schedule(step: int, steps: int) -> float:
        return by ** sum(step >= share * steps for share in at)

    return schedule


def ramp_up(step: float, steps: float) -> float:
    """exp(-5 (1 - step / steps)^2) until `steps`, then 1 (Laine and Aila, 2017)."""
    return math.exp(-5 * max(0.0, 1 - step / steps) ** 2)


def ramps(up: float = RAMP, down: float = 50 / 300) -> Schedule:
    """`ramp_up` in the first share of the training, exp(-12.5 t^2) with t from 0 to 1 in the last.

    The shares are those of Laine and Aila (2017): 80 and 50 of 300 epochs.
    """
    if not (0 < up <= 1 and 0 < down <= 1):
        raise NescioError(f"ramps are shares of the training, above 0 and up to 1: {up}, {down}")

    def schedule(step: int, steps: int) -> float:
        late = max(0.0, 1 - (1 - step / steps) / down)
        return ramp_up(step, up * steps) * math.exp(-12.5 * late**2)

    return schedule


SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "cosine": cosine,
    "drops": drops(),
    "ramps": ramps(),
}


def schedule_named(schedule: str | Schedule) -> Schedule:
    """A schedule by name, or the function itself."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise NescioError(f"unknown schedule {schedule!r}; known: {', '.join(SCHEDULES)}")
    return SCHEDULES[schedule]
