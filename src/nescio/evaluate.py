"""Predictions to numbers: quality on labelled data, separation of inside from outside."""

from typing import Any

import torch
from torch import Tensor

from nescio import metrics
from nescio.errors import NescioError
from nescio.measures import measure_all
from nescio.prediction import Classification, Prediction


def as_classification(prediction: Prediction) -> Classification:
    """The prediction in float64, if it is one of classes."""
    if not isinstance(prediction, Classification):
        raise NescioError(f"expected class probabilities, got a {type(prediction).__name__}")
    return prediction.to(torch.float64)


def quality(prediction: Classification, labels: Tensor) -> dict[str, float]:
    """Accuracy, NLL (nats), Brier (sum over classes), ECE (15 bins) and mean maximum confidence."""
    probs = prediction.probs
    confidence, correct = probs.amax(-1), prediction.labels == labels
    return {
        "accuracy": correct.double().mean().item(),
        "nll": -prediction.log_prob(labels).mean().item(),
        "brier": metrics.brier(probs, labels),
        "ece": metrics.ece(confidence, correct),
        "mean_max_confidence": metrics.mean_max_confidence(probs),
    }


def scores(prediction: Classification) -> dict[str, Any]:
    """Every applicable measure as an array of scores, one a case."""
    return {name: value.numpy() for name, value in measure_all(prediction).items()}


def separation(inside: dict[str, Any], outside: dict[str, Any]) -> dict[str, dict[str, float]]:
    """AUROC, AUPR and FPR at 95 % TPR of each measure; outside is the positive class."""
    result = {}
    for name, score in inside.items():
        ranking = metrics.rank(score, outside[name])
        result[name] = {
            "auroc": ranking.auroc,
            "aupr": ranking.aupr,
            "fpr_at_95_tpr": ranking.fpr_at_tpr(0.95),
        }
    return result
