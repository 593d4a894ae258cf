"""Several detectors as one, by p-values against calibration data (Fisher, 1932; Wilson, 2019)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, joint, scores

CALIBRATED = ("values", "logs", "scale")
NEAR = 1e-5  # of the range of the calibration scores: what is nearer may be the same but rounded
TAIL = 10  # the largest tenth of the calibration scores sets the scale beyond the largest

# from -log p of K parts, (K, N), and their weights (K, 1), which sum to 1, to the score (N,)
RULES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fisher": lambda logs, weights: 2 * len(logs) * (weights * logs).sum(0),
    "bonferroni": lambda logs, weights: (logs + weights.log()).amax(0),
    "harmonic": lambda logs, weights: (logs + weights.log()).logsumexp(0),
}


@detectors.register
def combined(
    parts: Sequence[Detector],
    calibration: Activations,
    *,
    rule: str = "fisher",
    weights: Sequence[float] | None = None,
) -> Detector:
    """Combine detectors by the p-values of their scores against those of calibration data.

    p = (1 + #{calibration >= s}) / (n + 1) at each calibration score; between two of them log p
    goes from one to the other, never below that formula, and flat at both, so that rounding does
    not matter where a score comes again and again. Beyond the largest, where all would tie at
    1 / (n + 1), p falls on as 1 / (1 + (s - largest) / b), with b the mean excess in the
    largest tenth: a heavy tail, so that no single part drowns the others.

    parts: fitted detectors.
    calibration: activations of inputs like the training data, that no part was fitted on.
    rule: "fisher", -2 sum log p: several parts that are a little off add up; "bonferroni", -log of
      K min p: the one that is furthest off decides; "harmonic", -log of the harmonic mean of p:
      between them, and fit for parts that depend on each other.
    weights: positive, one per part; None: all equal. A part with little weight speaks only where it
      is sure: min and mean are of p / weight, Fisher's sum is of weight x log p.
    """
    parts = () if isinstance(parts, Detector) else tuple(parts)
    if not parts or not all(isinstance(part, Detector) for part in parts):
        raise NescioError(
            "combined needs a list of at least one fitted detector: combined([knn(...), ...], x)"
        )
    if rule not in RULES:
        raise NescioError(unknown("rule", rule, RULES))
    numbers = [1.0] * len(parts) if weights is None else [float(one) for one in weights]
    if len(numbers) != len(parts) or not all(0 < one < math.inf for one in numbers):
        raise NescioError(
            f"weights must be {len(parts)} positive numbers, one per part, got {weights}; leave a "
            "part out to give it none"
        )
    shares = [one / sum(numbers) for one in numbers]
    states: list[dict[str, Tensor]] = [{} for _ in range(calibration.members)]
    for index, part in enumerate(parts):
        if part.name in joint and calibration.members > 1:
            raise NescioError(
                f"{part.name} reads all {calibration.members} networks at once and cannot be "
                "combined for each of them; leave it out, or use activations.mean()"
            )
        fits = part.states if len(part.states) > 1 else part.states * len(states)
        for state, fit, values in zip(states, fits, part.each(calibration), strict=True):
            state |= {f"{index}/{name}": tensor for name, tensor in fit.items()}
            state |= {f"{index}.{name}": t for name, t in calibrated(values, part.name).items()}
    about = [{k: v for k, v in part.manifest().items() if k != "networks"} for part in parts]
    options = {"rule": rule, "weights": shares, "parts": about}
    layers = dict.fromkeys(layer for part in parts for layer in part.layers)
    hashes = [part.fitted_on for part in parts if part.fitted_on is not None]
    hashes += [] if calibration.hashes is None else [calibration.hashes]
    result = fitted("combined", calibration, options, states, *layers)
    return replace(result, fitted_on=torch.cat(hashes).unique() if hashes else None)


@scores.named("combined")
def score(
    view: View, state: State, *, rule: str, weights: list[float], parts: list[dict[str, Any]]
) -> Tensor:
    logs, fits = [], _by_part(state, len(parts))
    for index, (part, fit) in enumerate(zip(parts, fits, strict=True)):
        if part["name"] in joint:
            values = joint[part["name"]](view.logits[None], **part["options"])
        else:
            read = replace(view, features={name: view.features[name] for name in part["layers"]})
            values = scores[part["name"]](read, fit, **part["options"])
        logs.append(surprise(values, *(state[f"{index}.{name}"] for name in CALIBRATED)))
    stacked = torch.stack(logs)
    return RULES[rule](stacked, stacked.new_tensor(weights)[:, None])


def _by_part(state: State, parts: int) -> list[dict[str, Tensor]]:
    """What was fitted for each part, under its own names."""
    fits: list[dict[str, Tensor]] = [{} for _ in range(parts)]
    for name, tensor in state.items():
        index, slash, rest = name.partition("/")
        if slash:
            fits[int(index)][rest] = tensor
    return fits


def surprise(scored: Tensor, values: Tensor, logs: Tensor, scale: Tensor) -> Tensor:
    """-log p of scores, given the distinct calibration scores, -log p there, and the tail."""
    scored = scored.to(values.dtype)
    if scored.requires_grad or scored.device.type != "cpu":
        found: Tensor = _surprise(torch, scored, scored.detach(), values, logs, scale)
        return found
    arrays = [tensor.numpy() for tensor in (scored, scored, values, logs, scale)]
    return torch.from_numpy(_surprise(np, *arrays))  # a few in a third of the time


def _surprise(library: Any, scored: Any, fixed: Any, values: Any, logs: Any, scale: Any) -> Any:
    """The same on arrays of numpy or torch; `fixed`: the scores without gradients."""
    above = library.searchsorted(values, fixed).clip(1, len(values) - 1)
    low, high = values[above - 1], values[above]
    share = ((scored - low) / (high - low)).clip(0, 1)
    share = share * share * (3 - 2 * share)  # flat at both ends
    in_dist = logs[above - 1] + share * (logs[above] - logs[above - 1])
    return in_dist + library.log1p((scored - values[-1]).clip(0) / scale)


def calibrated(scored: Tensor, name: str) -> dict[str, Tensor]:
    """Distinct scores, those that rounding may part as their largest; -log p there; the tail."""
    scored = scored.double()
    least, most = scored.aminmax()
    if least == most:
        raise NescioError(
            f"{name} gives all {len(scored)} calibration inputs the same score; leave it out, or "
            "calibrate with more inputs"
        )
    cells = ((scored - least) / (most - least) / NEAR).floor()
    cells, index, counts = cells.unique(return_inverse=True, return_counts=True)
    values = torch.full_like(cells, -torch.inf).scatter_reduce(0, index, scored, "amax")
    beyond = counts.flip(0).cumsum(0).flip(0).double()  # how many are at least as large
    logs = (len(scored) + 1) / (beyond + 1)
    largest = scored.topk(max(2, len(scored) // TAIL)).values
    scale = (largest - largest[-1]).mean()
    scale = scale if scale > 0 else scored.std(correction=0)
    return dict(zip(CALIBRATED, (values, logs.log(), scale), strict=True))
