"""Platt scaling (Platt, 1999): a slope for all logits and an intercept for each class.

With two classes this is the published form, a slope and an intercept for the difference of the
logits.
"""

import torch
from torch import Tensor

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import calibration
from nescio.calibration.likelihood import fit_weights
from nescio.calibration.map import State, fits
from nescio.core import Classification


@calibration(affine)
def platt(prediction: Classification, labels: Tensor) -> State:
    """A slope and class intercepts that maximize the likelihood of calibration data `(x, y)`."""
    start = torch.ones((), dtype=torch.float64)
    state = fit_weights(logits_of(prediction), labels, start, torch.zeros_like)
    return {**state, "intercept": state["intercept"] - state["intercept"][0]}


def fit_platt(prediction: Classification, labels: Tensor) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimize the negative log-likelihood."""
    state = fits["platt"](prediction, labels)
    return float(state["weight"]), tuple(state["intercept"].tolist())
