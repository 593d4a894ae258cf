"""Vector scaling (Guo et al., 2017): a slope and an intercept for each class."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.likelihood import fit_weights
from nescio.calibration.map import State, fits, maps
from nescio.core import Classification
from nescio.core.registry import calibrators
from nescio.models import Predictor


@calibrators.register
def vector(
    predictor: Predictor | nn.Module,
    data: tuple[Any, Any],
    *,
    spread: float = 0.3,
    shift: float = 1.0,
) -> Calibrated:
    """A slope and an intercept for each class, fitted on calibration data `(x, y)`.

    spread, shift: standard deviations expected of the slopes about their mean, and of the
        intercepts; small ones lead back to temperature scaling.
    """
    return calibrated("vector", predictor, data, spread=spread, shift=shift)


@fits.named("vector")
def _fitted(
    prediction: Classification, labels: Tensor, *, spread: float = 0.3, shift: float = 1.0
) -> State:
    start = torch.ones(prediction.classes, dtype=torch.float64)
    return fit_weights(
        logits_of(prediction),
        labels,
        start,
        lambda slopes: slopes - slopes.mean(),
        spread=spread,
        shift=shift,
    )


maps.named("vector")(affine)
