"""Vector scaling (Guo et al., 2017): a slope and an intercept for each class."""

import torch
from torch import Tensor

from nescio.calibration.affine import affine, logits_of
from nescio.calibration.calibrated import calibration
from nescio.calibration.likelihood import fit_weights
from nescio.calibration.map import State
from nescio.core import Classification


@calibration(affine)
def vector(
    prediction: Classification, labels: Tensor, *, spread: float = 0.3, shift: float = 1.0
) -> State:
    """A slope and an intercept for each class, fitted on calibration data `(x, y)`.

    spread, shift: standard deviations expected of the slopes about their mean, and of the
        intercepts; small ones lead back to temperature scaling.
    """
    start = torch.ones(prediction.classes, dtype=torch.float64)
    return fit_weights(
        logits_of(prediction),
        labels,
        start,
        lambda slopes: slopes - slopes.mean(),
        spread=spread,
        shift=shift,
    )
