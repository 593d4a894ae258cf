"""How raw outputs are read: a head turns `(M, *batch, O)` into a prediction, and scores it.

The spread is softplus of an output plus a floor. The floor is an option of the head.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.errors import NescioError
from nescio.core.prediction import Categorical, Dirichlet, DoubleExponential, Gaussian, Prediction
from nescio.core.registry import heads

Slope = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Head:
    """A reading of raw outputs; calling it gives a prediction."""

    name: str
    options: Mapping[str, float]
    task: str  # "classification" or "regression"
    width: int  # network outputs for each class or target
    read: Callable[[Tensor], Prediction]
    center: Callable[[Tensor], Tensor]  # outputs -> log probabilities, or means; not checked
    nll: Callable[[Tensor, Tensor], Tensor]  # outputs, target -> (M, *batch), in nats
    divergence: Callable[[Tensor, Tensor], Tensor]  # KL of the readings of two outputs
    nll_slope: Slope | None = None  # nll and its derivative in the outputs, in closed form
    gives_logits: bool = False  # whether detectors read the outputs as they are, not `center`

    def __call__(self, outputs: Tensor) -> Prediction:
        """The prediction; half precision is read in single, whose squares do not overflow."""
        return self.read(outputs if outputs.element_size() >= 4 else outputs.float())

    def __reduce__(self) -> Any:
        return _head, (self.name, dict(self.options))

    def __deepcopy__(self, _: Any) -> "Head":
        return self  # nothing in it changes


def _head(name: str, options: Mapping[str, Any]) -> Head:
    """A head as a pickle names it: its functions are those of this version of nescio."""
    made: Head = heads[name](**options)
    return made


@heads.register
def categorical() -> Head:
    """Class probabilities by softmax of C outputs."""
    return Head(
        "categorical",
        {},
        "classification",
        1,
        Categorical,
        lambda outputs: outputs.log_softmax(-1),
        cross_entropy,
        _kl_categorical,
        _categorical_slope,
        gives_logits=True,
    )


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log probability of the labels, `(M, *batch)`."""
    return F.cross_entropy(logits.movedim(-1, 1), labels, reduction="none")  # classes second


def _categorical_slope(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    logs = logits.log_softmax(-1)
    index = labels[..., None]
    scores = -logs.gather(-1, index)[..., 0]
    return scores, logs.exp_().scatter_add_(-1, index, -torch.ones_like(scores)[..., None])


def _kl_categorical(p: Tensor, q: Tensor) -> Tensor:
    logs = p.log_softmax(-1)
    return (logs.exp() * (logs - q.log_softmax(-1))).sum(-1)


@heads.register
def with_score() -> Head:
    """Class probabilities by softmax of C outputs; one more output, the last, is a score."""
    return Head(
        "with_score",
        {},
        "classification",
        1,
        lambda outputs: Categorical(classes_of(outputs)),
        lambda outputs: classes_of(outputs).log_softmax(-1),
        lambda outputs, y: cross_entropy(classes_of(outputs), y),
        lambda p, q: _kl_categorical(classes_of(p), classes_of(q)),
        gives_logits=True,
    )


def classes_of(outputs: Tensor) -> Tensor:
    """The outputs that are class logits: all but the last."""
    if outputs.shape[-1] < 3:
        raise NescioError(
            f"this head reads one output per class and one more, so at least 3, got "
            f"{outputs.shape[-1]}; give the network an output more than there are classes"
        )
    return outputs[..., :-1]


@heads.register
def dirichlet(*, floor: float = 1.0) -> Head:
    """Concentrations softplus(output) + floor of a Dirichlet over C class probabilities."""
    _positive(floor, "floor")
    logs = partial(_dirichlet_logs, floor)
    return Head(
        "dirichlet",
        {"floor": floor},
        "classification",
        1,
        lambda outputs: Dirichlet(F.softplus(outputs) + floor),
        logs,
        lambda outputs, y: -logs(outputs).gather(-1, y[..., None])[..., 0],
        lambda p, q: _kl_categorical(logs(p), logs(q)),
    )


def _dirichlet_logs(floor: float, outputs: Tensor) -> Tensor:
    alpha = F.softplus(outputs) + floor
    return alpha.log() - alpha.sum(-1, keepdim=True).log()


@heads.register
def gaussian(*, floor: float = 1e-6) -> Head:
    """Mean and variance, softplus(output) + floor, of D normal targets from 2 D outputs."""
    _positive(floor, "floor")
    slope, options = partial(_gaussian_slope, floor), {"floor": floor}
    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("gaussian", options, 2, partial(_split, floor), *densities, slope)


@heads.register
def fixed_variance(*, variance: float = 1.0) -> Head:
    """Mean of D normal targets from D outputs; the noise variance is known."""
    _positive(variance, "variance")

    def split(outputs: Tensor) -> tuple[Tensor, Tensor]:
        return outputs, torch.full_like(outputs, variance)

    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("fixed_variance", {"variance": variance}, 1, split, *densities)


@heads.register
def double_exponential(*, floor: float = 1e-6) -> Head:
    """Mean and scale, softplus(output) + floor, of D Laplace targets from 2 D outputs."""
    _positive(floor, "floor")
    densities = DoubleExponential, _laplace_nll, _kl_laplace
    options = {"floor": floor}
    return _regression("double_exponential", options, 2, partial(_split, floor), *densities)


def _regression(
    name: str,
    options: Mapping[str, float],
    width: int,
    split: Callable[[Tensor], tuple[Tensor, Tensor]],  # outputs -> mean, spread
    value: Callable[[Tensor, Tensor], Prediction],
    nll: Callable[[Tensor, Tensor, Tensor], Tensor],
    divergence: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    slope: Slope | None = None,
) -> Head:
    return Head(
        name,
        options,
        "regression",
        width,
        lambda outputs: value(*split(outputs)),
        lambda outputs: split(outputs)[0],
        lambda outputs, y: nll(*split(outputs), y),
        lambda p, q: divergence(*split(p), *split(q)),
        slope,
    )


def _gaussian_nll(mean: Tensor, variance: Tensor, target: Tensor) -> Tensor:
    scaled = (target - mean).square() / variance
    return (0.5 * (variance.log() + scaled) + HALF_LOG_TWO_PI).sum(-1)


def _gaussian_slope(floor: float, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    raw = outputs.chunk(2, dim=-1)[1]
    mean, variance = _split(floor, outputs)
    pull = (mean - y) / variance
    excess = (mean - y) * pull  # squared error in units of the variance
    scores = (0.5 * (variance.log() + excess) + HALF_LOG_TWO_PI).sum(-1)
    spread = 0.5 * (1 - excess) / variance * raw.sigmoid()
    return scores, torch.cat([pull, spread], dim=-1)


def _kl_gaussian(m1: Tensor, v1: Tensor, m2: Tensor, v2: Tensor) -> Tensor:
    ratio = v1 / v2
    return 0.5 * (ratio - 1 - ratio.log() + (m1 - m2).square() / v2).sum(-1)


def _laplace_nll(mean: Tensor, scale: Tensor, target: Tensor) -> Tensor:
    return ((2 * scale).log() + (target - mean).abs() / scale).sum(-1)


def _kl_laplace(m1: Tensor, b1: Tensor, m2: Tensor, b2: Tensor) -> Tensor:
    gap = (m1 - m2).abs()
    return ((b2 / b1).log() + gap / b2 + b1 / b2 * (-gap / b1).exp() - 1).sum(-1)


def _split(floor: float, outputs: Tensor) -> tuple[Tensor, Tensor]:
    if outputs.shape[-1] % 2:
        raise NescioError(
            f"this head needs two outputs per target (mean, spread), got {outputs.shape[-1]}"
        )
    mean, raw = outputs.chunk(2, dim=-1)
    return mean, F.softplus(raw) + floor


def _positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise NescioError(f"{name} must be positive and finite, got {value}")
