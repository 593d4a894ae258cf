"""Temperature scaling (Guo et al., 2017): divide all logits by one number.

The number minimises the likelihood loss of the mixture on held-out data, by Newton's method with
closed-form derivatives, guarded by a bracket.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration.affine import affine, logits_of, refuse_perfect
from nescio.calibration.calibrated import Calibrated, calibrated
from nescio.calibration.map import Map, fits, maps
from nescio.errors import NescioError
from nescio.prediction import Classification
from nescio.predictors.predictor import Predictor
from nescio.registry import calibrators

LIMIT = math.log(100.0)  # temperatures between 0.01 and 100
CHUNK = 1 << 20  # numbers of a chunk in float64


@calibrators.register
def temperature(predictor: Predictor | nn.Module, data: tuple[Any, Any]) -> Calibrated:
    """One temperature for all logits, fitted on held-out `(x, y)`; the order of classes stays."""
    return calibrated("temperature", predictor, data)


@fits.named("temperature")
def _fitted(prediction: Classification, labels: Tensor) -> Map:
    slope = torch.tensor(1 / fit_temperature(prediction, labels), dtype=torch.float64)
    shift = torch.zeros(prediction.classes, dtype=torch.float64)
    return Map("temperature", {}, {"weight": slope, "intercept": shift}, prediction.classes)


def fit_temperature(prediction: Classification, labels: Tensor) -> float:
    """The temperature that minimises the negative log-likelihood of the mixture."""
    refuse_perfect(prediction, labels)
    logits = logits_of(prediction).detach().flatten(1, -2)
    labels = labels.flatten().to(logits.device)
    low, high = _bracket(logits, labels)
    point = 0.5 * (low + high)
    for _ in range(100):
        _, first, second = _derivatives(logits, labels, math.exp(point))
        low, high = (low, point) if first > 0 else (point, high)
        newton = point - first / second if second > 0 else math.nan
        if abs(newton - point) < 1e-12:
            break
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - point) < 1e-12:
            break
        point = following
    if abs(point) > 0.999 * LIMIT:
        raise NescioError(
            "the best temperature lies outside 0.01 to 100: the logits do not speak for the "
            "labels; check the order of the classes and that x and y belong together"
        )
    return math.exp(-point)


def _bracket(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """An interval of log(1 / T) around the best; one network is convex, a mixture need not be."""
    if len(logits) == 1:
        return -LIMIT, LIMIT
    grid = torch.linspace(-LIMIT, LIMIT, 19).tolist()
    values = [_derivatives(logits, labels, math.exp(point))[0] for point in grid]
    best = values.index(min(values))
    return grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]


def _derivatives(logits: Tensor, labels: Tensor, slope: float) -> tuple[float, float, float]:
    """Mean NLL of the mixture at logits x slope, and its derivatives in log slope."""
    members, cases, classes = logits.shape
    total = torch.zeros(3, dtype=torch.float64)
    size = max(1, CHUNK // (members * classes))
    for z, y in zip(logits.split(size, 1), labels.split(size), strict=True):
        z = z.double()
        logs = (slope * z).log_softmax(-1)
        probs = logs.exp()
        z = z.masked_fill(z.isinf(), 0.0)  # a probability of 0 adds nothing to the moments
        mean = (probs * z).sum(-1)  # (M, n)
        variance = (probs * (z - mean[..., None]).square()).sum(-1)
        index = y.expand(members, -1)[..., None]
        own = logs.gather(-1, index)[..., 0]
        rise = z.gather(-1, index)[..., 0] - mean  # d log p_m / d slope
        share = own.softmax(0)
        first = (share * rise).sum(0)
        second = (share * (rise.square() - variance)).sum(0) - first.square()
        value = own.logsumexp(0) - math.log(members)
        total -= torch.stack([value.sum(), first.sum(), second.sum()]).cpu()
    value_, first_, second_ = (total / cases).tolist()
    return value_, slope * first_, slope * first_ + slope**2 * second_


maps.named("temperature")(affine)
