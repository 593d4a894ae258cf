"""What becomes of predictors and of the guard as the test inputs move away: one small shift."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.audited.held import Held
from nescio.data.bits import Indices
from nescio.data.shifted import Shifted, feature_scaling, rotation
from nescio.errors import NescioError
from nescio.guarding import Guard
from nescio.predictors import Predictor
from nescio.randomness import generator
from nescio.shifting import along
from nescio.units import Units, units_of

CASES = 500  # measured cases that are moved, at most


def moved(
    predictors: Mapping[str, Predictor], guards: Mapping[str, Guard], held: Held, *, seed: int = 0
) -> dict[str, Any]:
    """Curves over the strengths of a rotation of images, of a scaling of other inputs.

    Of at most 500 cases, drawn; `skipped` says why there are none.
    """
    x, y = held.measured
    rows = torch.randperm(len(x), generator=generator(seed, "moved"))[:CASES].sort().values
    x, y = x[rows], y[rows]
    shift = turned(units_of(x)) if x.ndim == 4 else feature_scaling()
    try:
        return dict(along(predictors, (x, y), shift, guards=guards).result)
    except NescioError as error:
        return {"skipped": str(error)}


def turned(units: Units) -> Shifted:
    """A rotation of images with any range; what comes in at the corners is its low end."""
    inner = rotation()
    if units.natural:
        return inner

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        return units.inputs(inner.change(units.shares(x), strength, numbers).clamp(0, 1))

    return Shifted(inner.name, inner.description, False, change)
