"""What becomes of predictors and of the guard as the test inputs move away: one small shift."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, generator
from nescio.data.corruptions import Shifted, feature_scaling, rotation
from nescio.data.random_access import Indices
from nescio.data.ranges import Units, units_of
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.under_shift import along
from nescio.guards import Guard
from nescio.models import Predictor

SAMPLES = 500  # measured samples that are moved, at most


def moved(
    predictors: Mapping[str, Predictor], guards: Mapping[str, Guard], held: Held, *, seed: int = 0
) -> dict[str, Any]:
    """Curves over the strengths of a rotation of images, of a scaling of other inputs.

    Of at most 500 samples, drawn; `skipped` says why there are none.
    """
    x, y = held.measured
    rows = torch.randperm(len(x), generator=generator(seed, "moved"))[:SAMPLES].sort().values
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

    return Shifted(inner.name, inner.description, change, images=False)
