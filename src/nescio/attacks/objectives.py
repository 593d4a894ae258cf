"""What an attack raises: functions of inputs, one value per sample.

Values are log-odds, so that they go on rising where float32 probabilities have rounded to 1.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Categorical,
    Classification,
    NescioError,
    Prediction,
    answer,
    categorical,
    check_labels,
    log_odds,
)
from nescio.core import measures as _measures  # noqa: F401 (fills the registry)
from nescio.core.registry import measures
from nescio.models.model import Model, check_logits
from nescio.nets import refusing_shapes
from nescio.nets.stack import stack

Objective = Callable[..., Tensor]  # inputs (N, ...), or inputs and targets, -> (N,)


def confidence(source: object) -> Objective:
    """The log-odds of the most probable class: high where the network is sure of something."""
    answered = answer_of(source)
    return lambda x: -log_odds(answered(x))


def label_loss(source: object) -> Objective:
    """The log-odds against the true label: positive where it has less than half."""
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        return -_odds(logs, _column(y, logs))

    return value


def wrong_confidence(source: object) -> Objective:
    """The log-odds of the most probable class but the label: sure, and wrong."""
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        wrong = logs.scatter(-1, _column(y, logs), -torch.inf)
        return _odds(logs, wrong.argmax(-1, keepdim=True))

    return value


def uncertainty(source: object, measure: str, *, lower: bool = True, **options: Any) -> Objective:
    """A measure of the prediction, lowered (the model looks sure) or raised.

    variation_ratio counts votes and has no gradient.
    """
    answered, read = _predictions(source), measures[measure]
    if measure == "variation_ratio":
        raise NescioError("variation_ratio counts votes and has no gradient; use another measure")
    sign = -1.0 if lower else 1.0
    return lambda x: sign * read(answered(x), **options)


def answer_of(source: object) -> Callable[[Tensor], Classification]:
    """Class probabilities as a function of inputs, for your own objective.

    A network stays as it is: its weights are frozen copies and its layers in evaluation mode, so
    only inputs get gradients.
    """
    predict = _predictions(source)

    def read(x: Tensor) -> Classification:
        prediction = predict(x)
        if not isinstance(prediction, Classification):
            kind = type(prediction).__name__
            raise NescioError(f"expected class probabilities to attack, got a {kind}")
        return prediction

    return read


def _predictions(source: object) -> Callable[[Tensor], Prediction]:
    predictor = source
    if isinstance(source, nn.Module):
        predictor = Model(source, stack([source]), categorical())

    def read(x: Tensor) -> Prediction:
        with refusing_shapes(x):
            prediction = answer(predictor, x)
        if isinstance(prediction, Categorical):
            check_logits(prediction.logits, categorical())
        return prediction

    return read


def _column(y: Tensor, logs: Tensor) -> Tensor:
    return check_labels(y, logs.shape[-1], logs.shape[:-1]).to(logs.device)[:, None]


def _odds(logs: Tensor, label: Tensor) -> Tensor:
    """Log-odds of the class `label` (N, 1): log p - log (1 - p), from the other classes."""
    return logs.gather(-1, label)[:, 0] - logs.scatter(-1, label, -torch.inf).logsumexp(-1)
