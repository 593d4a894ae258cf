"""A predictor whose answers go through a calibration."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.map import Map, as_classification, fit
from nescio.core import Prediction, answer, as_targets
from nescio.data import door
from nescio.models import Predictor, plain


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Answers of `predictor`, calibrated by `map`."""

    predictor: Predictor
    map: Map

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return self.map.temperature

    @property
    def slope(self) -> float:
        """What the logits are multiplied by."""
        return self.map.slope

    @property
    def intercept(self) -> tuple[float, ...]:
        """What is added to the logits, one number a class."""
        return self.map.intercept

    def __call__(self, x: Any) -> Prediction:
        return self.map(self.predictor(x))

    def answer(self, x: Tensor) -> Prediction:
        """The prediction in one go, with gradients with respect to the inputs."""
        return self.map(answer(self.predictor, x))


def calibrated(
    name: str, predictor: Predictor | nn.Module, data: Any, **options: Any
) -> Calibrated:
    """A predictor with the calibration of a name, fitted on held-out `(x, y)` or a loader."""
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    x, y = door.read(data, name="calibration data")
    prediction = as_classification(predictor(x))
    labels = as_targets(y, len(prediction), task="classification")
    return Calibrated(predictor, fit(name, prediction, labels, **options))


def scaled(predictor: Predictor, slope: float, intercept: tuple[float, ...]) -> Calibrated:
    """A predictor with member logits `slope * z + intercept`, numbers known beforehand."""
    numbers = {"weight": slope, "intercept": intercept}
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Calibrated(predictor, Map("platt", {}, state, len(intercept)))
