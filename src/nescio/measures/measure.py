"""What a measure is: a function of a prediction, larger where the model is less sure."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

from torch import Tensor

from nescio.errors import NescioError
from nescio.prediction import Prediction
from nescio.registry import measures

M = TypeVar("M", bound=Callable[..., Tensor])


def measure(function: M) -> M:
    """Register a measure; the annotation of its first argument says what it can read."""
    kind = get_type_hints(function)["prediction"]

    @functools.wraps(function)
    def checked(prediction: Prediction, **options: Any) -> Tensor:
        if not isinstance(prediction, kind):
            raise NescioError(
                f"{function.__name__} reads a {kind.__name__}, got {type(prediction).__name__}; "
                f"measures for it: {', '.join(applicable(prediction)) or 'none'}"
            )
        return function(prediction, **options)

    checked.kind = kind  # type: ignore[attr-defined]
    return cast(M, measures.register(checked))


def logarithm(base: float) -> float:
    """Natural logarithm of a unit's base: e for nats, 2 for bits, C for the normalised form."""
    if not (0 < base < math.inf and base != 1):
        raise NescioError(f"base must be positive and not 1, got {base}; 2 gives bits")
    return math.log(base)


def applicable(prediction: object) -> tuple[str, ...]:
    """Names of the measures that can read `prediction`."""
    return tuple(name for name in measures if isinstance(prediction, measures[name].kind))  # type: ignore[attr-defined]


def measure_all(prediction: Prediction) -> dict[str, Tensor]:
    """Every applicable measure of `prediction` by name, each `(*batch,)`."""
    return {name: measures[name](prediction) for name in applicable(prediction)}
