"""Isotonic regression (Zadrozny and Elkan, 2002): any map that does not fall.

One map for all classes (Zhang et al., 2020), then divided by the sum: the order of the classes
stays. Or one class against the rest, which may turn it round.
"""

import numpy as np
import torch
from torch import Tensor

from nescio.calibration.by_probability import Floats, apply_rows, fit_rows
from nescio.calibration.calibrated import calibration
from nescio.calibration.map import State
from nescio.core import Categorical, Classification


def _applied(prediction: Classification, state: State, *, keep_argmax: bool) -> Categorical:
    x, y = state["x"], state["y"]

    def read(probs: Tensor) -> Tensor:
        after = torch.searchsorted(x, probs).clamp(1, x.shape[1] - 1)
        low, high = x.gather(1, after - 1), x.gather(1, after)
        share = ((probs - low) / (high - low)).nan_to_num(0.0).clamp(0, 1)  # 0 / 0: filled up
        return torch.lerp(y.gather(1, after - 1), y.gather(1, after), share)

    return apply_rows(prediction, read, keep_argmax=keep_argmax)


@calibration(_applied)
def isotonic(prediction: Classification, labels: Tensor, *, keep_argmax: bool = True) -> State:
    """The best map of probabilities that does not fall, from calibration data `(x, y)`.

    keep_argmax: one map for all classes. False: one per class; the most probable class may change.

    Two made-up samples, a right one of probability 0 and a wrong one of probability 1, keep what is
    fitted between 0 and 1. Between two steps it is linear.
    """
    return fit_rows(prediction, labels, _steps, keep_argmax=keep_argmax)


def _steps(probs: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """The ends of the flats."""
    from sklearn.isotonic import IsotonicRegression

    x, y = np.concatenate([[0.0], probs, [1.0]]), np.concatenate([[1.0], truth, [0.0]])
    found = IsotonicRegression().fit(x, y)
    return found.X_thresholds_, found.y_thresholds_
