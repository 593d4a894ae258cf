"""A predictor whose member logits are scaled and shifted before the average."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.checks import as_targets
from nescio.errors import NescioError
from nescio.prediction import Categorical, Prediction, answer, check_labels
from nescio.predictors.plain import plain
from nescio.predictors.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Scaled:
    """Answers of `predictor` with logits `slope * z + intercept` in every member."""

    predictor: Predictor
    slope: float
    intercept: tuple[float, ...]  # one a class

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return 1 / self.slope

    def __call__(self, x: Any) -> Prediction:
        return scale(as_categorical(self.predictor(x)), self.slope, self.intercept)

    def answer(self, x: Tensor) -> Prediction:
        """The prediction in one go, with gradients with respect to the inputs."""
        return scale(as_categorical(answer(self.predictor, x)), self.slope, self.intercept)


def scale(prediction: Categorical, slope: float, intercept: tuple[float, ...]) -> Categorical:
    """The prediction with member logits `slope * z + intercept`."""
    shift = torch.tensor(intercept, dtype=prediction.logits.dtype, device=prediction.logits.device)
    return Categorical(slope * prediction.logits + shift)


def as_categorical(prediction: Prediction) -> Categorical:
    """The prediction, if it has logits to scale."""
    if not isinstance(prediction, Categorical):
        raise NescioError(f"calibration scales logits; a {type(prediction).__name__} has none")
    return prediction


def as_predictor(predictor: Predictor | nn.Module) -> Predictor:
    """A predictor; a bare network is taken as it is."""
    return plain(predictor) if isinstance(predictor, nn.Module) else predictor


def held_out(predictor: Predictor, data: tuple[Any, Any]) -> tuple[Categorical, Tensor]:
    """Predictions and labels of held-out data, checked."""
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise NescioError("calibration needs held-out data as a pair (x, y)")
    prediction = as_categorical(predictor(data[0]))
    labels = as_targets(data[1], len(prediction), task="classification")
    return prediction, check_labels(labels, prediction.classes, prediction.batch_shape)


def refuse_perfect(prediction: Categorical, labels: Tensor) -> None:
    """Where all members get every held-out case right, the likelihood grows without end."""
    if (prediction.logits.argmax(-1) == labels.to(prediction.logits.device)).all():
        raise NescioError(
            "every held-out case is classified right, so the likelihood grows without end as the "
            "temperature goes to 0; use more, or harder, held-out data"
        )
