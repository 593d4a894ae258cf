"""Accuracy, calibration and guards along shifts of increasing strength."""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.conformal import Intervals, Sets, binomial_interval
from nescio.core import (
    Classification,
    NescioError,
    Prediction,
    Regression,
    as_inputs,
    as_targets,
    check_labels,
    finite,
    unknown,
    write_json,
)
from nescio.data.corruptions import Shifted
from nescio.evaluation.answers import SAMPLES, Seen, quality
from nescio.models import Predictor

# Accuracy against a confidence threshold (Lakshminarayanan et al., 2017, figure 6).

THRESHOLDS = tuple(step / 10 for step in range(10))


@dataclass(frozen=True, eq=False)
class Confident:
    """Among inputs with at least a confidence: the accuracy, and their number.

    Every OOD input counts as wrong. Where no input is left, accuracy is NaN.
    """

    thresholds: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    answered: NDArray[np.float64]  # share of all inputs, inside and outside
    answered_ood: NDArray[np.float64]  # share of those from outside


def accuracy_above(
    in_dist: Seen, labels: Tensor, ood: Seen, *, thresholds: Sequence[float] = THRESHOLDS
) -> Confident:
    """Accuracy on inputs of at least each confidence; OOD inputs have no correct label."""
    levels = np.asarray(thresholds, np.float64)
    if levels.ndim != 1 or not levels.size or not (levels.min() >= 0 and levels.max() <= 1):
        raise NescioError(f"thresholds must be one or more numbers from 0 to 1, got {thresholds}")
    y = check_labels(labels.cpu(), in_dist.log_probs.shape[1], in_dist.labels.shape)
    right = in_dist.confidence[in_dist.labels == y].numpy()
    known, unknown = in_dist.confidence.numpy(), ood.confidence.numpy()
    counts = [_at_least(values, levels) for values in (right, known, unknown)]
    answered = counts[1] + counts[2]
    with np.errstate(invalid="ignore"):
        accuracy = counts[0] / answered
    shares = answered / (len(known) + len(unknown))
    return Confident(levels, accuracy, shares, counts[2] / len(unknown))


def _at_least(values: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.int64]:
    return len(values) - np.searchsorted(np.sort(values), levels, side="left")


# Histograms of the predictive entropy, inside and outside (Lakshminarayanan et al., 2017).


@dataclass(frozen=True, eq=False)
class Entropies:
    """Shares of inputs by predictive entropy, in nats, from 0 to log C."""

    edges: NDArray[np.float64]
    in_dist: NDArray[np.float64]  # they sum to 1
    ood: NDArray[np.float64]


def entropies(in_dist: Seen, ood: Seen, *, bins: int = 40) -> Entropies:
    """How the predictive entropy is distributed over in-distribution and OOD inputs."""
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise NescioError(f"`bins` must be a whole number from 1 up, got {bins!r}")
    classes = in_dist.log_probs.shape[1]
    edges = np.linspace(0, math.log(classes), bins + 1)
    return Entropies(edges, _shares(in_dist, edges), _shares(ood, edges))


def _shares(seen: Seen, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(seen.scores["predictive_entropy"])
    inner = np.searchsorted(edges[1:-1], values, side="right")  # rounding may pass log C
    shares: NDArray[np.float64] = np.bincount(inner, minlength=len(edges) - 1) / len(values)
    return shares


# Predictors, prediction sets and guards at each strength of a shift, as curves.

Rule = Callable[[Any], Any]  # a prediction to sets (N, C), or to the ends (N, D) of intervals
Piece = dict[str, Any]
KEYS = ("shift", "description", "strengths", "predictors", "sets", "guards")
ANSWER, UNSURE, OOD = range(3)
OUT_OF_RANGE = ".*outside the range of the calibration.*"  # a shift is, on purpose


@dataclass(frozen=True, eq=False)
class Along:
    """Curves over the strengths of a shift; `result` holds them as plain numbers."""

    result: Mapping[str, Any]

    @property
    def strengths(self) -> list[float]:
        """At which everything was measured."""
        found: list[float] = self.result["strengths"]
        return found

    def curve(self, kind: str, name: str, number: str) -> list[float]:
        """A number at each strength: `curve("predictors", "network", "accuracy")`.

        kind: predictors, sets (named `predictor: rule`) or guards.
        """
        parts: Any = self.result
        for what, key in (("kind of curve", kind), ("name", name), ("number", number)):
            if key not in parts:
                raise NescioError(unknown(what, key, parts))
            parts = parts[key]
        found: list[float] = parts
        return found

    def save(self, path: str | Path) -> None:
        """Write the numbers as JSON."""
        write_json(Path(path), self.result)

    @classmethod
    def load(cls, path: str | Path) -> "Along":
        """Read what was saved."""
        try:
            result = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise NescioError(f"cannot read curves from {path}: {error}") from None
        missing = [key for key in KEYS if not isinstance(result, dict) or key not in result]
        if missing:
            raise NescioError(f"{path} holds no curves over strengths: it lacks {missing[0]!r}")
        return cls(result)


@torch.no_grad()
def along(
    predictors: Mapping[str, Predictor],
    data: tuple[Any, Any],
    shift: Shifted,
    *,
    strengths: Sequence[float] = range(6),
    sets: Mapping[str, Mapping[str, Rule]] | None = None,
    guards: Mapping[str, Callable[[Tensor], Any]] | None = None,
) -> Along:
    """Quality, coverage and decisions on `data`, inputs and targets, at each strength of a shift.

    predictors: by name. Classes: accuracy, NLL, Brier, ECE and mean maximum confidence; numbers:
      root mean squared error and NLL.
    sets: prediction sets or intervals by the name of their predictor, then by their own.
    guards: by name; their risk, and the shares they answer, are unsure of and call outside.
    """
    sets, guards = sets or {}, guards or {}
    _check(predictors, sets, guards, strengths)
    x = as_inputs(data[0], keep_bytes=True)
    y = torch.as_tensor(data[1]).cpu()
    y = as_targets(y, len(x), task="regression" if y.is_floating_point() else "classification")
    found = [_at(predictors, (x, y), shift, float(s), sets, guards) for s in strengths]
    curves = {
        kind: {
            name: {key: [one[kind][name][key] for one in found] for key in first}
            for name, first in found[0][kind].items()
        }
        for kind in found[0]
    }
    about = {"shift": shift.name, "description": shift.description, "samples": len(x)}
    return Along(finite({**about, "strengths": [float(s) for s in strengths], **curves}))


def _at(
    predictors: Mapping[str, Predictor],
    data: tuple[Tensor, Tensor],
    shift: Shifted,
    strength: float,
    sets: Mapping[str, Mapping[str, Rule]],
    guards: Mapping[str, Callable[[Tensor], Any]],
) -> dict[str, dict[str, Piece]]:
    """Everything at one strength; inputs are shifted and read a piece at a time."""
    x, y = data
    answers: dict[str, list[Any]] = {name: [] for name in predictors}
    covered: dict[str, list[Tensor]] = {f"{p}: {r}": [] for p in sets for r in sets[p]}
    decided: dict[str, list[Tensor]] = {name: [] for name in guards}
    for start in range(0, len(x), SAMPLES):
        moved, truth = shift(x[start : start + SAMPLES], strength, first=start), y[start:][:SAMPLES]
        for name, predictor in predictors.items():
            prediction = predictor(moved).to("cpu", torch.float64)
            answers[name].append(_kept(prediction, truth))
            for rule, region in sets.get(name, {}).items():
                covered[f"{name}: {rule}"].append(_held(region, prediction, truth, start))
        for name, guard in guards.items():
            decided[name].append(_decisions(guard, moved, truth))
    return {
        "predictors": {name: _quality(parts, y) for name, parts in answers.items()},
        "sets": {name: _coverage(torch.cat(parts)) for name, parts in covered.items()},
        "guards": {name: _risk(torch.cat(parts)) for name, parts in decided.items()},
    }


def _kept(prediction: Prediction, truth: Tensor) -> Any:
    """What the quality needs of a piece: log probabilities, or errors and densities."""
    if isinstance(prediction, Classification):
        return prediction.members, prediction.log_probs
    if not isinstance(prediction, Regression):
        raise NescioError(f"expected classes or numbers, got a {type(prediction).__name__}")
    target = truth.double()
    squared = (prediction.mixture_mean - target).square().sum(-1)
    return torch.stack([squared, -prediction.log_prob(target)])


def _quality(parts: list[Any], y: Tensor) -> Piece:
    if isinstance(parts[0], tuple):
        seen = Seen(parts[0][0], torch.cat([logs for _, logs in parts]), {})
        return dict(quality(seen, y))
    squared, nll = torch.cat(parts, dim=1).mean(1).tolist()
    return {"rmse": squared**0.5, "nll": nll}


def _held(region: Rule, prediction: Prediction, truth: Tensor, first: int) -> Tensor:
    """Whether a region holds the target, and its size: classes, or mean width; `(N, 2)`."""
    ours = isinstance(region, (Sets, Intervals))
    found = region(prediction, first=first) if ours else region(prediction)  # type: ignore[call-arg]
    if isinstance(found, Tensor):
        in_dist, size = found.gather(1, truth[:, None])[:, 0], found.sum(1)
    else:
        low, high = (end.double() for end in found)
        in_dist = ((low <= truth) & (truth <= high)).all(1)
        size = (high - low).mean(1)
    return torch.stack([in_dist.double(), size.double()], dim=1)


def _coverage(found: Tensor) -> Piece:
    share = binomial_interval(int(found[:, 0].sum()), len(found))
    size = found[:, 1].mean().item()
    return {"covered": share.value, "low": share.low, "high": share.high, "size": size}


def _decisions(guard: Callable[[Tensor], Any], x: Tensor, truth: Tensor) -> Tensor:
    """The decision and whether the label is wrong, `(N, 2)`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=OUT_OF_RANGE)
        found = guard(x)
    return torch.stack([found.decision.cpu(), (found.label.cpu() != truth).long()], dim=1)


def _risk(found: Tensor) -> Piece:
    """Errors among the answers with their exact interval; no answers, no risk."""
    shares = {
        name: (found[:, 0] == code).double().mean().item()
        for name, code in (("answered", ANSWER), ("unsure", UNSURE), ("ood", OOD))
    }
    wrong = found[found[:, 0] == ANSWER, 1]
    risk: dict[str, float | None] = {"risk": None, "low": None, "high": None}
    if len(wrong):
        share = binomial_interval(int(wrong.sum()), len(wrong))
        risk = {"risk": share.value, "low": share.low, "high": share.high}
    return {**shares, **risk, "wrong": int(wrong.sum()) / len(found)}


def _check(
    predictors: Mapping[str, Predictor],
    sets: Mapping[str, Mapping[str, Rule]],
    guards: Mapping[str, Any],
    strengths: Sequence[float],
) -> None:
    if not predictors and not guards:
        raise NescioError("nothing to evaluate: give a predictor or a guard, by name")
    if not len(strengths):
        raise NescioError("`strengths` is empty; 0 to 5 is usual")
    for name, rules in sets.items():
        if name not in predictors:
            raise NescioError(f"`sets` are by predictor: {unknown('predictor', name, predictors)}")
        if not isinstance(rules, Mapping):
            raise NescioError(
                f"`sets` of {name!r} must be by name too: sets={{{name!r}: {{'adaptive': rule}}}}"
            )
