"""Small summaries of many numbers, and how they are written in captions and claims."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def share(mask: Any) -> float:
    """Share of true samples; NaN of none at all."""
    values = np.asarray(mask)
    return float(values.mean()) if values.size else float("nan")


def median(values: Any) -> float:
    """The median; NaN of none at all."""
    array = np.asarray(values)
    return float(np.median(array)) if array.size else float("nan")


def mean_range(values: Sequence[float]) -> dict[str, float]:
    """Mean, lowest and highest of the numbers of several trainings."""
    return {"mean": float(np.mean(values)), "low": float(min(values)), "high": float(max(values))}


def percent(value: float) -> str:
    """A share in per cent, with decimals where it is small or nearly whole."""
    if not math.isfinite(value):
        return "–"
    number = 100 * value
    for digits in (0, 1, 2, 3):
        text = f"{number:.{digits}f}"
        plain = digits > 0 or not (0 < number < 10 or 90 < number < 100)
        if plain and (number == 100 or float(text) < 100) and (number == 0 or float(text) > 0):
            return f"{text} %"
    return "over 99.999 %" if number > 50 else "under 0.001 %"


def at_least(value: float, what: str) -> str:
    """`all rays`, or `at least 99.2 % of the rays`."""
    return f"all {what}" if value == 1 else f"at least {percent(value)} of the {what}"


def between(values: dict[str, float], form: str = ".3f") -> str:
    """A spread as `mean (low to high)`."""
    return f"{values['mean']:{form}} ({values['low']:{form}} to {values['high']:{form}})"
