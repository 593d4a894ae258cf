"""Accuracy against a confidence threshold (Lakshminarayanan et al., 2017, figure 6)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.errors import NescioError
from nescio.evaluate import Seen
from nescio.prediction import check_labels

THRESHOLDS = tuple(step / 10 for step in range(10))


@dataclass(frozen=True, eq=False)
class Confident:
    """Among inputs with at least a confidence: the share answered rightly, and how many they are.

    Every input from outside counts as wrong. Where no input is left, accuracy is NaN.
    """

    thresholds: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    answered: NDArray[np.float64]  # share of all inputs, inside and outside
    answered_outside: NDArray[np.float64]  # share of those from outside


def accuracy_above(
    inside: Seen, labels: Tensor, outside: Seen, *, thresholds: Sequence[float] = THRESHOLDS
) -> Confident:
    """Accuracy on inputs of at least each confidence; those from outside have no right answer."""
    levels = np.asarray(thresholds, np.float64)
    if levels.ndim != 1 or not levels.size or not (levels.min() >= 0 and levels.max() <= 1):
        raise NescioError(f"thresholds must be one or more numbers from 0 to 1, got {thresholds}")
    y = check_labels(labels.cpu(), inside.log_probs.shape[1], inside.labels.shape)
    right = inside.confidence[inside.labels == y].numpy()
    known, unknown = inside.confidence.numpy(), outside.confidence.numpy()
    counts = [_at_least(values, levels) for values in (right, known, unknown)]
    answered = counts[1] + counts[2]
    with np.errstate(invalid="ignore"):
        accuracy = counts[0] / answered
    shares = answered / (len(known) + len(unknown))
    return Confident(levels, accuracy, shares, counts[2] / len(unknown))


def _at_least(values: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.int64]:
    return len(values) - np.searchsorted(np.sort(values), levels, side="left")
