"""Predictors, prediction sets and guards at each strength of a shift, as curves."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.checks import as_inputs, as_targets
from nescio.conformal import Intervals, Sets, binomial_interval
from nescio.data.shifted import Shifted
from nescio.errors import NescioError
from nescio.evaluate import CASES, Seen, quality
from nescio.files import finite, write_json
from nescio.prediction import Classification, Prediction, Regression
from nescio.predictors import Predictor
from nescio.registry import unknown

Rule = Callable[[Any], Any]  # a prediction to sets (N, C), or to the ends (N, D) of intervals
Piece = dict[str, Any]
KEYS = ("shift", "description", "strengths", "predictors", "sets", "guards")
ANSWER, UNSURE, OUTSIDE = range(3)
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
    about = {"shift": shift.name, "description": shift.description, "cases": len(x)}
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
    for start in range(0, len(x), CASES):
        moved, truth = shift(x[start : start + CASES], strength, first=start), y[start:][:CASES]
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
        inside, size = found.gather(1, truth[:, None])[:, 0], found.sum(1)
    else:
        low, high = (end.double() for end in found)
        inside = ((low <= truth) & (truth <= high)).all(1)
        size = (high - low).mean(1)
    return torch.stack([inside.double(), size.double()], dim=1)


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
        for name, code in (("answered", ANSWER), ("unsure", UNSURE), ("outside", OUTSIDE))
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
