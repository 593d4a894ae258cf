"""What the guard of a regression guarantees, in words and as a table."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nescio.guards.guarantees import (
    SHIFT,
    dropped_words,
    ood_words,
    other_risks,
    percent,
    repeated_words,
    rounded,
    strength_words,
)
from nescio.guards.largest_coverage import fewest
from nescio.guards.rules import Rule

if TYPE_CHECKING:
    from nescio.guards.regression_guard import RegressionGuard

COLUMNS = ("samples", "OOD above", "answered", "misses", "risk at most", "width up to")


def regression_guarantees(guard: "RegressionGuard") -> tuple[str, ...]:
    """The guarantees with their assumptions, and what is not guaranteed."""
    known = [*dropped_words(guard), *repeated_words(guard), *strength_words(guard)]
    return (_interval(guard), ood_words(guard), _answers(guard), *guard.withheld, *known, SHIFT)


def _interval(guard: "RegressionGuard") -> str:
    target = "the target of an input"
    if guard.targets > 1:
        target = (
            f"all {guard.targets} targets of an input at once ({percent(guard.miscoverage)} / "
            f"{guard.targets} for each)"
        )
    samples = guard.intervals.options["samples"]
    return (
        f"Intervals: the intervals ({guard.intervals.name}) hold {target} with "
        f"probability at least {percent(1 - guard.miscoverage)}, on average over calibration sets "
        f"({samples:,} samples), for any network, if the input and the samples are exchangeable."
    )


def _answers(guard: "RegressionGuard") -> str:
    (rule,) = guard.rules
    if not rule.coverage.holds:
        return (
            "Answers: the calibration data support no answer, so the guard abstains on every input."
        )
    found = rule.coverage
    return (
        f"Answers: of the inputs that are answered, at most {percent(guard.risk)} have a target "
        f"outside their interval. The calibration data show this with a confidence of "
        f"{percent(guard.confidence)}: it fails for at most {percent(1 - guard.confidence)} of "
        "calibration sets (exact binomial bounds, tested in an order fixed beforehand, on samples "
        "that calibrated no interval). It holds if samples and inputs are drawn independently from "
        f"one distribution. Of {found.samples:,} samples that are not OOD{_not_wide(guard)}, "
        f"{found.answered:,} are answered."
    )


def _not_wide(guard: "RegressionGuard") -> str:
    return "" if guard.max_width is None else " and within max_width"


def why_none(guard: "RegressionGuard", rule: Rule) -> str:
    """Why nothing is answered."""
    found = rule.coverage
    if not found.samples:
        return (
            f"Nothing is answered: none of {len(rule.scores):,} samples is in-distribution"
            f"{_not_wide(guard)}; allow a larger width, or use a more accurate network."
        )
    said = (
        f"Nothing is answered: {found.errors} misses among the {found.answered:,} narrowest "
        f"intervals of {found.samples:,} samples show a risk of at most {rounded(found.bound)}, "
        f"not of {percent(guard.risk)}.{other_risks(rule)}"
    )
    if found.needed is None:
        return (
            f"{said} At this share of misses more samples would not help: ask for a smaller "
            "miscoverage, so that intervals are wider, or allow more risk."
        )
    least = found.needed or fewest(guard.risk, guard.confidence)
    total = max(1, math.ceil(least * len(rule.scores) / found.samples))
    return (
        f"{said} It takes {total:,} samples or more in this part of the calibration data, a "
        "smaller miscoverage, or a larger risk."
    )


def regression_table(guard: "RegressionGuard") -> tuple[Sequence[str], list[list[str]]]:
    """The columns and the row of the one rule."""
    (rule,) = guard.rules
    found, count = rule.coverage, len(rule.scores)
    share = f"{found.answered / max(1, count):.1%}"
    widths = " | ".join(f"{width:.4g}" for width in guard.answered_widths)
    answers = [share, str(found.errors), rounded(found.bound), widths]
    answers = answers if found.holds else ["0 %", "-", "-", "never"]
    return COLUMNS, [[f"{count:,}", f"{rule.limit:.4g}", *answers]]
