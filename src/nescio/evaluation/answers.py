"""Predictions to numbers: quality on labeled data, separation of test data from OOD data."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio import metrics
from nescio.core import (
    Classification,
    Inputs,
    NescioError,
    Prediction,
    check_labels,
    measure_all,
    without_ignored,
)
from nescio.models import Predictor

SAMPLES, PIXELS = 2048, 1 << 20  # predicted and measured at a time


@dataclass(frozen=True, eq=False)
class Seen:
    """What is stored of a prediction: one row per sample, whatever the number of members."""

    members: int
    log_probs: Tensor  # (N, C) of the mixture, float64
    scores: dict[str, Any]  # every applicable measure, (N,)

    @property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @property
    def confidence(self) -> Tensor:
        return self.probs.amax(-1)

    @property
    def labels(self) -> Tensor:
        return self.log_probs.argmax(-1)


def as_classification(prediction: Prediction) -> Classification:
    """The prediction in float64, if it is one of classes."""
    if not isinstance(prediction, Classification):
        raise NescioError(
            f"expected class probabilities, got a {type(prediction).__name__}; of several labels, "
            "use nescio.audit_labels, or choose one: head=nescio.heads.binary(label=0)"
        )
    return prediction.to("cpu", torch.float64)


@torch.no_grad()
def see(predictor: Predictor, x: Inputs) -> Seen:
    """Predict and measure inputs, a piece at a time, so that members need no memory."""
    parts = []
    for piece in x.split(SAMPLES):
        prediction = as_classification(predictor(piece))
        parts.append((prediction.log_probs, measure_all(prediction)))
    logs = torch.cat([log_probs for log_probs, _ in parts])
    names = parts[0][1]
    scores = {name: torch.cat([values[name] for _, values in parts]).numpy() for name in names}
    return Seen(prediction.members, logs, scores)


def quality(seen: Seen, labels: Tensor) -> dict[str, float]:
    """Accuracy, NLL (nats), Brier (sum over classes), ECE (15 bins) and mean maximum confidence."""
    labels = check_labels(labels.cpu(), seen.log_probs.shape[1], seen.labels.shape)
    correct = seen.labels == labels
    return {
        "accuracy": correct.double().mean().item(),
        "nll": -seen.log_probs.gather(1, labels[:, None]).mean().item(),
        "brier": metrics.brier(seen.probs, labels),
        "ece": metrics.ece(seen.confidence, correct),
        "mean_max_confidence": metrics.mean_max_confidence(seen.probs),
    }


@torch.no_grad()
def maps_quality(
    predictor: Predictor, pair: tuple[Tensor, Tensor], ignore_index: int | None
) -> tuple[int, dict[str, float]]:
    """The number of members, and as `quality` the numbers of label maps, pixel by pixel."""
    logs, labels = [], []
    pixels = max(1, pair[1][0].numel())
    for x, y in zip(*(part.split(max(1, PIXELS // pixels)) for part in pair), strict=True):
        prediction, counts = as_classification(predictor(x)), without_ignored(y, ignore_index)[1]
        kept = torch.ones_like(y, dtype=torch.bool) if counts is None else counts
        logs.append(prediction.log_probs[kept.cpu()].float())
        labels.append(y[kept])
    seen, truth = Seen(prediction.members, torch.cat(logs).double(), {}), torch.cat(labels)
    overlap = metrics.mean_iou(seen.labels, truth)
    return prediction.members, {**quality(seen, truth), "mean_iou": overlap}


def separation(in_dist: Seen, ood: Seen) -> dict[str, dict[str, float]]:
    """AUROC, AUPR and FPR at 95 % TPR of each measure; OOD is the positive class."""
    result = {}
    for name, score in in_dist.scores.items():
        ranking = metrics.rank(score, ood.scores[name])
        result[name] = {
            "auroc": ranking.auroc,
            "aupr": ranking.aupr,
            "fpr_at_95_tpr": ranking.fpr_at_tpr(0.95),
        }
    return result
