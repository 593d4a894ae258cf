"""Platt scaling (Platt, 1999): a slope for all logits and an intercept for each class.

With two classes this is the published form, a slope and an intercept for the difference of the
logits.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.calibration.scaled import Scaled, as_predictor, held_out, refuse_perfect, scale
from nescio.errors import NescioError
from nescio.prediction import Categorical
from nescio.predictors.predictor import Predictor
from nescio.registry import calibrators


@calibrators.register
def platt(predictor: Predictor | nn.Module, data: tuple[Any, Any]) -> Scaled:
    """A slope and class intercepts, fitted on held-out `(x, y)` by the mixture's likelihood."""
    predictor = as_predictor(predictor)
    prediction, labels = held_out(predictor, data)
    slope, intercept = fit_platt(prediction, labels)
    return Scaled(predictor, slope, intercept)


def fit_platt(prediction: Categorical, labels: Tensor) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimise the negative log-likelihood."""
    from scipy.optimize import minimize

    refuse_perfect(prediction, labels)
    missing = prediction.classes - len(labels.unique())
    if missing:
        raise NescioError(
            f"{missing} of {prediction.classes} classes have no held-out case, so their intercepts "
            "would run away; use temperature scaling or more held-out data"
        )
    wide = prediction.to(torch.float64)

    def objective(values: "np.ndarray[Any, Any]") -> tuple[float, "np.ndarray[Any, Any]"]:
        free = torch.tensor(values, requires_grad=True)
        shift = torch.cat([torch.zeros(1), free[1:]]).to(wide.logits)
        loss = -Categorical(free[0].to(wide.logits) * wide.logits + shift).log_prob(labels).mean()
        (slope,) = torch.autograd.grad(loss, free)
        return loss.item(), slope.numpy()

    start = np.concatenate([[1.0], np.zeros(prediction.classes - 1)])
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    if not np.isfinite(found.x).all() or abs(found.x[0]) > 1e4:
        raise NescioError("Platt scaling did not converge; use more held-out data")
    slope, intercept = float(found.x[0]), (0.0, *map(float, found.x[1:]))
    refuse_perfect(scale(wide, slope, intercept), labels)
    return slope, intercept
