"""Platt scaling (Platt, 1999): a slope for all logits and an intercept for each class.

With two classes this is the published form, a slope and an intercept for the difference of the
logits.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.calibration.affine import affine, logits_of, refuse_missing, refuse_perfect
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.map import Map, fits, maps
from nescio.errors import NescioError
from nescio.prediction import Categorical, Classification
from nescio.predictors.predictor import Predictor
from nescio.registry import calibrators


@calibrators.register
def platt(predictor: Predictor | nn.Module, data: tuple[Any, Any]) -> Calibrated:
    """A slope and class intercepts, fitted on held-out `(x, y)` by the mixture's likelihood."""
    return calibrated("platt", predictor, data)


@fits.named("platt")
def _fitted(prediction: Classification, labels: Tensor) -> Map:
    slope, intercept = fit_platt(prediction, labels)
    numbers = {"weight": slope, "intercept": intercept}
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Map("platt", {}, state, prediction.classes)


def fit_platt(prediction: Classification, labels: Tensor) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimise the negative log-likelihood."""
    from scipy.optimize import minimize

    logits = logits_of(prediction).detach().double()
    refuse_perfect(logits, labels)
    refuse_missing(prediction.classes, labels)

    def moved(slope: Tensor, shift: Tensor) -> Categorical:
        return Categorical(slope * logits + shift.to(logits))

    def objective(values: "np.ndarray[Any, Any]") -> tuple[float, "np.ndarray[Any, Any]"]:
        free = torch.tensor(values, requires_grad=True)
        shift = torch.cat([torch.zeros(1), free[1:]])
        loss = -moved(free[0].to(logits), shift).log_prob(labels).mean()
        (slope,) = torch.autograd.grad(loss, free)
        return loss.item(), slope.numpy()

    start = np.concatenate([[1.0], np.zeros(prediction.classes - 1)])
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    if not np.isfinite(found.x).all() or abs(found.x[0]) > 1e4:
        raise NescioError("Platt scaling did not converge; use more held-out data")
    slope, intercept = float(found.x[0]), (0.0, *map(float, found.x[1:]))
    refuse_perfect(moved(torch.tensor(slope), torch.tensor(intercept)).logits, labels)
    return slope, intercept


maps.named("platt")(affine)
