"""Matrix scaling (Guo et al., 2017), with off-diagonal and intercept regularization (ODIR)."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.likelihood import fit_weights, off_diagonal
from nescio.calibration.map import Map, fits, maps
from nescio.core import Classification
from nescio.core.registry import calibrators
from nescio.models import Predictor


@calibrators.register
def matrix(
    predictor: Predictor | nn.Module,
    data: Any,
    *,
    spread: float = 0.1,
    shift: float = 1.0,
) -> Calibrated:
    """A matrix for the logits and an intercept for each class, fitted on held-out `(x, y)`.

    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
        intercepts.
    """
    return calibrated("matrix", predictor, data, spread=spread, shift=shift)


@fits.named("matrix")
def _fitted(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> Map:
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logits = logits_of(prediction)
    state = fit_weights(logits, labels, start, off_diagonal, spread=spread, shift=shift)
    return Map("matrix", {"spread": spread, "shift": shift}, state, prediction.classes)


maps.named("matrix")(affine)
