"""Dirichlet calibration (Kull et al., 2019): a matrix for the log probabilities of the mixture."""

from typing import Any

import torch
from torch import Tensor

from nescio.calibration.affine import transformed, widened
from nescio.calibration.calibrated import calibration
from nescio.calibration.likelihood import fit_weights, off_diagonal
from nescio.calibration.map import State
from nescio.core import Categorical, Classification


def _applied(prediction: Classification, state: State, **_: Any) -> Categorical:
    return Categorical(transformed(widened(prediction).log_probs[None], state))


@calibration(_applied)
def dirichlet(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> State:
    """A matrix for the log probabilities and class intercepts, fitted on calibration data `(x, y)`.

    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
        intercepts.
    """
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logs = widened(prediction).log_probs[None]
    return fit_weights(logs, labels, start, off_diagonal, spread=spread, shift=shift)
