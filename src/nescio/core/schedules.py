"""Learning-rate schedules: a factor as a function of (step, steps)."""

import math
from collections.abc import Callable, Sequence

from nescio.core.errors import NescioError

Schedule = Callable[[int, int], float]


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


SCHEDULES: dict[str, Schedule] = {"constant": constant, "cosine": cosine, "drops": drops()}


def schedule_named(schedule: str | Schedule) -> Schedule:
    """A schedule by name, or the function itself."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise NescioError(f"unknown schedule {schedule!r}; known: {', '.join(SCHEDULES)}")
    return SCHEDULES[schedule]
