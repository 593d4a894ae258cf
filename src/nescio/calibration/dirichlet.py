"""Dirichlet calibration (Kull et al., 2019): a matrix for the log probabilities of the mixture."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.affine import transformed, widened
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.likelihood import fit_weights, off_diagonal
from nescio.calibration.map import Map, State, fits, maps
from nescio.core import Categorical, Classification
from nescio.core.registry import calibrators
from nescio.models import Predictor


@calibrators.register
def dirichlet(
    predictor: Predictor | nn.Module,
    data: Any,
    *,
    spread: float = 0.1,
    shift: float = 1.0,
) -> Calibrated:
    """A matrix for the log probabilities and class intercepts, fitted on held-out `(x, y)`.

    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
        intercepts.
    """
    return calibrated("dirichlet", predictor, data, spread=spread, shift=shift)


@fits.named("dirichlet")
def _fitted(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> Map:
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logs = widened(prediction).log_probs[None]
    state = fit_weights(logs, labels, start, off_diagonal, spread=spread, shift=shift)
    return Map("dirichlet", {"spread": spread, "shift": shift}, state, prediction.classes)


@maps.named("dirichlet")
def _applied(prediction: Classification, state: State, **_: Any) -> Categorical:
    return Categorical(transformed(widened(prediction).log_probs[None], state))
