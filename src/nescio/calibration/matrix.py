"""Matrix scaling (Guo et al., 2017), with off-diagonal and intercept regularization (ODIR)."""

import torch
from torch import Tensor

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import calibration
from nescio.calibration.likelihood import fit_weights, off_diagonal
from nescio.calibration.map import State
from nescio.core import Classification


@calibration(affine)
def matrix(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> State:
    """A matrix for the logits and an intercept for each class, fitted on calibration data `(x, y)`.

    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
        intercepts.
    """
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logits = logits_of(prediction)
    return fit_weights(logits, labels, start, off_diagonal, spread=spread, shift=shift)
