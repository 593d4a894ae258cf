"""Platt scaling (Platt, 1999): a slope for all logits and an intercept for each class.

With two classes this is the published form, a slope and an intercept for the difference of the
logits.
"""

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
def platt(predictor: Predictor | nn.Module, data: Any) -> Calibrated:
    """A slope and class intercepts, fitted on held-out `(x, y)` by the mixture's likelihood."""
    return calibrated("platt", predictor, data)


@fits.named("platt")
def _fitted(prediction: Classification, labels: Tensor) -> Map:
    slope, intercept = fit_platt(prediction, labels)
    numbers = {"weight": slope, "intercept": intercept}
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Map("platt", {}, state, prediction.classes)


def fit_platt(prediction: Classification, labels: Tensor) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimize the negative log-likelihood."""
    start = torch.ones((), dtype=torch.float64)
    found = fit_weights(logits_of(prediction), labels, start, torch.zeros_like)
    intercept = found["intercept"] - found["intercept"][0]
    return float(found["weight"]), tuple(intercept.tolist())


maps.named("platt")(affine)
