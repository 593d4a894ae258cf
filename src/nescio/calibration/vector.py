"""Vector scaling (Guo et al., 2017): a slope and an intercept for each class."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.likelihood import fit_weights
from nescio.calibration.map import Map, fits, maps
from nescio.core import Classification
from nescio.core.registry import calibrators
from nescio.models import Predictor


@calibrators.register
def vector(
    predictor: Predictor | nn.Module,
    data: Any,
    *,
    spread: float = 0.3,
    shift: float = 1.0,
) -> Calibrated:
    """A slope and an intercept for each class, fitted on held-out `(x, y)`.

    spread, shift: standard deviations expected of the slopes about their mean, and of the
        intercepts; small ones lead back to temperature scaling.
    """
    return calibrated("vector", predictor, data, spread=spread, shift=shift)


@fits.named("vector")
def _fitted(
    prediction: Classification, labels: Tensor, *, spread: float = 0.3, shift: float = 1.0
) -> Map:
    start = torch.ones(prediction.classes, dtype=torch.float64)
    state = fit_weights(
        logits_of(prediction),
        labels,
        start,
        lambda slopes: slopes - slopes.mean(),
        spread=spread,
        shift=shift,
    )
    return Map("vector", {"spread": spread, "shift": shift}, state, prediction.classes)


maps.named("vector")(affine)
