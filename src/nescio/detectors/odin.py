"""Softmax at a high temperature after a step towards confidence (ODIN: Liang et al., 2018)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, as_batch, only_tensor
from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.blocks import check_classes, check_temperature
from nescio.detectors.simple import log_odds

BATCH = 128  # inputs of a pass: activations and gradients stay in the cache

Answer = Callable[[Tensor], Tensor]


@detectors.register
def odin(
    *,
    temperature: float = 1000.0,
    radius: float = 0.0014,
    scale: float | Sequence[float] | None = None,
) -> Detector:
    """Minus the log-odds of the first class at a temperature, after a small step of the input.

    The step is -radius * sign of the gradient of the cross-entropy of z / T with the class that the
    network answers before it; a gradient of zero counts as +1, as in the authors' code. Scores are
    float64: at T = 1000 probabilities differ after the fourth digit.

    temperature: T. radius: in the units of the inputs before they were standardized.
    scale: what inputs were divided by, one number or one per channel (the axis after the samples):
    the step is divided by it too.
    """
    if not 0 <= radius < float("inf"):
        raise NescioError(f"radius must be finite and not negative, got {radius}")
    options = {"temperature": check_temperature(temperature), "radius": float(radius)}
    return Detector(name="odin", options={**options, "scale": _as_list(scale)})


@scores.named("odin")
def score(
    view: View, _: State, *, temperature: float, radius: float, scale: list[float] | None
) -> Tensor:
    """Log-odds against the first class of the moved inputs, a batch at a time."""
    inputs, answer = sources(view)
    odds = []
    for part in inputs.split(BATCH):
        x = as_batch(part, part.dtype if part.is_floating_point() else torch.float32)
        moved = x if radius == 0 else x - radius * step(answer, x, temperature, scale)
        odds.append(log_odds_at(answer(moved), temperature))
    return torch.cat(odds)


def sources(view: View) -> tuple[Tensor, Answer]:
    """Inputs and the network, or an error that says how to keep them."""
    if view.inputs is None or view.answer is None:
        missing = "inputs" if view.inputs is None else "network"
        raise NescioError(
            f"odin moves the inputs, and these activations have no {missing}; observe with "
            "inputs=True, member by member (a mean of networks has no network of its own), or "
            "give Activations(..., inputs=x, answers=[net])"
        )
    return only_tensor(view.inputs, "odin"), view.answer


def step(answer: Answer, x: Tensor, temperature: float, scale: list[float] | None) -> Tensor:
    """The sign of the gradient of the loss for the predicted class, in the units of `x`."""
    with torch.enable_grad():
        start = x.detach().requires_grad_()
        logits = answer(start).double() / temperature
        loss = F.cross_entropy(logits, logits.argmax(-1), reduction="sum")
        gradient = torch.autograd.grad(loss * temperature, start)[0]  # half precision: no underflow
    sign = torch.where(gradient >= 0, 1.0, -1.0).to(x)
    return sign if scale is None else sign / _per_channel(scale, x)


def log_odds_at(logits: Tensor, temperature: float) -> Tensor:
    """Log of (1 - p) / p of the first class at a temperature, in float64."""
    return log_odds(check_classes(logits).double() / temperature)


def _per_channel(scale: list[float], x: Tensor) -> Tensor:
    if len(scale) not in (1, x.shape[1]):
        raise NescioError(
            f"scale has {len(scale)} numbers, the inputs {x.shape[1]} channels; give one number, "
            "or one per channel"
        )
    return torch.tensor(scale).to(x).view(-1, *[1] * (x.ndim - 2))


def _as_list(scale: float | Sequence[float] | None) -> list[float] | None:
    if scale is None:
        return None
    numbers = torch.as_tensor(scale, dtype=torch.float64).flatten().tolist()
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise NescioError(f"scale must be positive and finite, got {scale}")
    return list(numbers)
