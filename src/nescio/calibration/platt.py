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
from nescio.calibration.map import State, fits, maps
from nescio.core import Classification
from nescio.core.registry import calibrators
from nescio.models import Predictor


@calibrators.register
def platt(predictor: Predictor | nn.Module, data: tuple[Any, Any]) -> Calibrated:
    """A slope and class intercepts that maximize the likelihood of calibration data `(x, y)`."""
    return calibrated("platt", predictor, data)


@fits.named("platt")
def _fitted(prediction: Classification, labels: Tensor) -> State:
    start = torch.ones((), dtype=torch.float64)
    state = fit_weights(logits_of(prediction), labels, start, torch.zeros_like)
    return {**state, "intercept": state["intercept"] - state["intercept"][0]}


def fit_platt(prediction: Classification, labels: Tensor) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimize the negative log-likelihood."""
    state = _fitted(prediction, labels)
    return float(state["weight"]), tuple(state["intercept"].tolist())


maps.named("platt")(affine)
