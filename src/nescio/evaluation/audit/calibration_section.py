"""How well confidence is earned, before and after a temperature that was fitted on other cases."""

from typing import Any

import torch
from torch import Tensor

from nescio import metrics
from nescio.calibration import Map, fit, map_of
from nescio.core import NescioError, generator
from nescio.evaluation.answers import SAMPLES, Seen, as_classification, quality
from nescio.evaluation.audit.held_out import Held
from nescio.models import Predictor
from nescio.training.loop import Pair

NUMBERS = 20_000_000  # log-probabilities that fit a temperature, at most
RESAMPLES = 500
KEPT = ("nll", "brier")


@torch.no_grad()
def calibration(predictor: Predictor, held: Held, *, seed: int = 0) -> dict[str, Any]:
    """ECE with its interval, smooth ECE, NLL, Brier and the bins, before and after temperature.

    The interval starts above 0 only where the error is beyond chance.
    A predictor that is calibrated already has no second temperature; where none can be fitted,
    `skipped` says why.
    """
    if map_of(predictor) is not None:
        return {"skipped": "it is calibrated already"}
    try:
        fitted = _fitted(predictor, held.fitting)
    except NescioError as error:
        fitted, why = None, str(error)
    x, y = held.measured
    before, after = [], []
    for piece in x.split(SAMPLES):
        prediction = as_classification(predictor(piece))
        before.append(prediction.log_probs)
        if fitted is not None:
            after.append(fitted(prediction).log_probs)
    found = {"before": _numbers(torch.cat(before), y, seed)}
    if fitted is None:
        return {**found, "skipped": why}
    return {
        **found,
        "after": _numbers(torch.cat(after), y, seed),
        "temperature": fitted.temperature,
    }


def _fitted(predictor: Predictor, data: Pair) -> Map:
    """The temperature; of so many samples as fit into memory with all members."""
    x, y = data
    if not len(x):
        raise NescioError("there is no case to fit a temperature on")
    one = as_classification(predictor(x[:1]))
    most = max(1, NUMBERS // (one.members * one.classes))
    if most < len(x):
        rows = torch.randperm(len(x), generator=generator(0, "fitting"))[:most]
        x, y = x[rows], y[rows]
    return fit("temperature", as_classification(predictor(x)), y)


def _numbers(logs: Tensor, y: Tensor, seed: int) -> dict[str, Any]:
    seen = Seen(1, logs, {})
    scores = quality(seen, y)
    confidence, right = seen.confidence, seen.labels == y.cpu()
    error = metrics.bootstrap_metric(metrics.ece, confidence, right, resamples=RESAMPLES, seed=seed)
    return {
        **{name: scores[name] for name in KEPT},
        "ece": {"value": error.value, "low": error.low, "high": error.high},
        "smooth_ece": metrics.smooth_ece(confidence, right),
        "reliability": bins(confidence, right),
    }


def bins(confidence: Tensor, right: Tensor) -> dict[str, list[Any]]:
    """The bins of a reliability diagram as lists."""
    found = metrics.reliability(confidence, right)
    return {
        "edges": found.edges.tolist(),
        "count": found.count.tolist(),
        "confidence": found.confidence.tolist(),
        "accuracy": found.accuracy.tolist(),
    }
