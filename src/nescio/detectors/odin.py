"""Softmax at a high temperature after a step towards confidence (ODIN: Liang et al., 2018)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, as_batch, only_tensor, spans, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, NoInputsError, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.simple import check_classes, check_temperature, log_odds
from nescio.metrics import auroc, fpr_at_tpr

BATCH = 128  # inputs of a pass: activations and gradients stay in the cache

Answer = Callable[[Tensor], Tensor]
TEMPERATURES = (1.0, 10.0, 100.0, 1000.0)
RADII = tuple(0.0002 * k for k in range(21))  # 0 to 0.004, as published
WITHOUT = "mean confidence of the in-distribution data"

# in-distribution and OOD scores -> what is to be high
CRITERIA: dict[str, Callable[[Tensor, Tensor], float]] = {
    "auroc": lambda in_dist, ood: float(auroc(in_dist, ood)),
    "fpr95": lambda in_dist, ood: -float(fpr_at_tpr(in_dist, ood)),
}


@detectors.register
def odin(
    *,
    temperature: float = 1000.0,
    radius: float = 0.0014,
    scale: float | Sequence[float] | None = None,
) -> Detector:
    """Minus the log-odds of the first class at a temperature, after a small step of the input.

    The step is -radius * sign of the gradient of the cross-entropy of z / T with the class that the
    network answers before it; a gradient of zero counts as +1, as in the authors' code. Scores
    are float64, as probabilities at T = 1000 differ after the fourth digit.

    temperature: T, which divides the logits.
    radius: length of the step, in the units of the inputs before they were standardized.
    scale: what inputs were divided by, one number or one per channel (the axis after the samples):
      the step is divided by it too. None: 1.
    """
    if not 0 <= radius < float("inf"):
        raise NescioError(f"radius must be finite and not negative, got {radius}")
    options: dict[str, Any] = {"temperature": check_temperature(temperature)}
    options |= {"radius": float(radius), "scale": scale}
    if scale is not None:
        numbers = torch.as_tensor(scale, dtype=torch.float64).flatten().tolist()
        if not numbers or not all(0 < number < float("inf") for number in numbers):
            raise NescioError(f"scale must be positive and finite, got {scale}")
        options["scale"] = numbers
    return Detector(name="odin", options=options)


@scores.named("odin")
def _score(
    view: View, _: State, *, temperature: float, radius: float, scale: list[float] | None
) -> Tensor:
    odds = []
    for x, answer in sources(view):
        moved = x if radius == 0 else x - radius * step(answer, x, temperature, scale)
        odds.append(log_odds_at(answer(moved), temperature))
    return torch.cat(odds)


def sources(view: View) -> Iterator[tuple[Tensor, Answer]]:
    """Batches of inputs with the network, or an error that says how to keep them."""
    if view.inputs is None or view.answer is None:
        missing = "inputs" if view.inputs is None else "network"
        raise NoInputsError(
            f"odin moves the inputs, and these activations have no {missing}; observe with "
            "inputs=True, member by member (a mean of networks has no network of its own), or "
            "give Activations(..., inputs=x, answers=[net])"
        )
    x = only_tensor(view.inputs, "odin")
    for part in (x[cut] for cut in spans(len(x), BATCH)):
        dtype = part.dtype if part.is_floating_point() else torch.float32
        yield as_batch(part, dtype), view.answer


def step(answer: Answer, x: Tensor, temperature: float, scale: list[float] | None) -> Tensor:
    """The sign of the gradient of the loss for the predicted class, in the units of `x`."""
    with torch.enable_grad():
        start = x.detach().requires_grad_()
        logits = answer(start).double() / temperature
        loss = F.cross_entropy(logits, logits.argmax(-1), reduction="sum")
        gradient = torch.autograd.grad(loss * temperature, start)[0]  # half precision: no underflow
    sign = torch.where(gradient >= 0, 1.0, -1.0).to(x)
    if scale is None:
        return sign
    if len(scale) not in (1, x.shape[1]):
        raise NescioError(
            f"scale has {len(scale)} numbers, the inputs {x.shape[1]} channels; give one number, "
            "or one per channel"
        )
    return sign / torch.tensor(scale).to(x).view(-1, *[1] * (x.ndim - 2))


def log_odds_at(logits: Tensor, temperature: float) -> Tensor:
    """Log of (1 - p) / p of the first class at a temperature, in float64."""
    return log_odds(check_classes(logits).double() / temperature)


def tuned_odin(
    in_dist: Activations,
    ood: Activations | None = None,
    *,
    name: str | None = None,
    by: str = "auroc",
    temperatures: Sequence[float] | None = None,
    radii: Sequence[float] = RADII,
    scale: float | Sequence[float] | None = None,
) -> Detector:
    """ODIN with the temperature and radius that do best on data reserved for this.

    With `ood`, the pair with the best AUROC or FPR95; of equal ones the first. Without, one
    temperature is used (default 1000), and the radius is the one that raises the mean confidence
    of `in_dist` most (Hsu et al., 2020). `about["tuned"]` of the detector says which, and has the
    hashes of the inputs that were used: scores of these flatter it.

    in_dist: in-distribution activations, observed with inputs=True, and not among the data to be
      scored later.
    ood: activations of OOD data, likewise; None: there are none.
    name: name of the OOD data, for tables.
    by: "auroc" or "fpr95", the criterion of the choice with `ood`.
    temperatures: temperatures of the grid; None: 1, 10, 100 and 1000, without `ood` 1000 alone.
    radii: radii of the grid, by default 0 to 0.004, as published.
    scale: as in `odin`.
    """
    if by not in CRITERIA:
        raise NescioError(unknown("criterion", by, CRITERIA))
    if temperatures is None:
        temperatures = TEMPERATURES if ood is not None else TEMPERATURES[-1:]
    if not len(temperatures) or not len(radii):
        raise NescioError("the grid is empty; give at least one temperature and one radius")
    if ood is None and len(temperatures) > 1:
        raise NescioError(
            "without OOD data the confidence decides, and it is not comparable between "
            f"temperatures; give one temperature, not {len(temperatures)}, or OOD data"
        )
    best, result = -float("inf"), odin(scale=scale)
    numbers = result.options["scale"]
    for temperature in temperatures:
        inner = _scores(in_dist, temperature, radii, numbers)
        outer = None if ood is None else _scores(ood, temperature, radii, numbers)
        for index, radius in enumerate(radii):
            if outer is None:
                value = float((-inner[index]).sigmoid().mean())
            else:
                value = CRITERIA[by](inner[index].mean(0), outer[index].mean(0))
            if value > best:
                best = value
                result = odin(temperature=temperature, radius=radius, scale=scale)
    used = [in_dist.hashes, None if ood is None else ood.hashes]
    record: dict[str, Any] = {
        "by": WITHOUT if ood is None else by,
        "value": abs(best),
        "in_dist": in_dist.samples,
        "ood": 0 if ood is None else ood.samples,
        "on": None if ood is None else name or str(ood.about.get("name", "unnamed")),
        "hashes": [h for hashes in used if hashes is not None for h in hashes.tolist()],
        "temperatures": list(map(float, temperatures)),
        "radii": list(map(float, radii)),
    }
    about = {**in_dist.about, "tuned": record}
    return replace(result, about=about, fitted_on=in_dist.hashes)


def _scores(
    activations: Activations, temperature: float, radii: Sequence[float], scale: list[float] | None
) -> Tensor:
    """Scores `(radii, M, N)`; the gradient is taken once for all radii."""
    rows = []
    for member in range(activations.members):
        blocks = []
        views = activations.views(member, ())
        for x, answer in chain.from_iterable(map(sources, views)):
            sign = step(answer, x, temperature, scale)
            with torch.no_grad():
                moved = [log_odds_at(answer(x - r * sign), temperature) for r in radii]
            blocks.append(torch.stack(moved))
        rows.append(torch.cat(blocks, 1))
    return torch.stack(rows, 1)
