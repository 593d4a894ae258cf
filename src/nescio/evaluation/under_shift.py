"""Accuracy, calibration and guards along shifts of increasing strength."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.conformal import Intervals, Sets, binomial_interval
from nescio.core import (
    Classification,
    DataSet,
    NescioError,
    Prediction,
    Regression,
    Results,
    Row,
    as_inputs,
    as_targets,
    check_labels,
    from_json,
    is_whole,
    load_manifest,
    quiet,
    save_manifest,
    to_json,
    unknown,
)
from nescio.data.corruptions import Shifted
from nescio.evaluation.answers import SAMPLES, Seen, quality
from nescio.metrics import Interval, rmse
from nescio.models import Predictor

# Accuracy against a confidence threshold (Lakshminarayanan et al., 2017, figure 6).

THRESHOLDS = tuple(step / 10 for step in range(10))


@dataclass(frozen=True, eq=False)
class Confident:
    """Accuracy among inputs with at least a confidence, and how many they are.

    Every OOD input counts as wrong. Where no input is left, accuracy is NaN.

    thresholds: the confidences, `(T,)`.
    accuracy: share of the answers that are correct, `(T,)`.
    answered: share of all inputs, test and OOD, that are answered, `(T,)`.
    answered_ood: share of the OOD inputs that are answered, `(T,)`.
    """

    thresholds: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    answered: NDArray[np.float64]
    answered_ood: NDArray[np.float64]


def accuracy_above(
    in_dist: Seen, labels: Tensor, ood: Seen, *, thresholds: Sequence[float] = THRESHOLDS
) -> Confident:
    """Accuracy on inputs of at least each confidence; OOD inputs have no right answer.

    in_dist: answers to the test inputs, as `nescio.evaluation.answers.see` returns them.
    labels: true classes of the test inputs, `(N,)`.
    ood: answers to the OOD inputs.
    thresholds: the confidences, from 0 to 1; by default 0 to 0.9.
    """
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


# Histograms of the predictive entropy of test and OOD inputs (Lakshminarayanan et al., 2017).


@dataclass(frozen=True, eq=False)
class Entropies:
    """Shares of inputs by predictive entropy, in nats, from 0 to log C.

    edges: edges of the bins, `(bins + 1,)`.
    in_dist: share of the test inputs in each bin, `(bins,)`; they sum to 1.
    ood: the same of the OOD inputs, `(bins,)`.
    """

    edges: NDArray[np.float64]
    in_dist: NDArray[np.float64]
    ood: NDArray[np.float64]


def entropies(in_dist: Seen, ood: Seen, *, bins: int = 40) -> Entropies:
    """How the predictive entropy is spread over test inputs and OOD inputs.

    in_dist: answers to the test inputs, as `nescio.evaluation.answers.see` returns them.
    ood: answers to the OOD inputs.
    bins: number of bins.
    """
    if not is_whole(bins, 1):
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
Numbers = dict[str, Interval | float | None]  # by metric
KIND = "shift curves"
ANSWER, UNSURE, OOD = range(3)


@dataclass(frozen=True, kw_only=True)
class ShiftCurves:
    """Curves over the strengths of a shift: one row per subject, strength and metric.

    shift: name of the shift.
    description: the shift in words.
    samples: number of samples.
    rows: the numbers.
    sets: one data set per strength.
    """

    shift: str
    description: str
    samples: int
    rows: tuple[Row, ...]
    sets: tuple[DataSet, ...]

    @property
    def results(self) -> Results:
        """The rows for selection, frames and other tables."""
        about = {"shift": self.shift, "description": self.description, "samples": self.samples}
        return Results(self.rows, self.sets, about)

    @property
    def strengths(self) -> list[float]:
        """The strengths at which everything was measured."""
        return [one.strength or 0.0 for one in self.sets]

    def subjects(self, metric: str) -> list[str]:
        """The predictors, sets (named `predictor: rule`) or guards that have a `metric`."""
        return list(dict.fromkeys(row.subject for row in self.rows if row.metric == metric))

    def curve(
        self, subject: str, metric: str, end: Literal["value", "low", "high"] = "value"
    ) -> list[float | None]:
        """A number at each strength, or an end of its interval: `curve("network", "accuracy")`.

        subject: name of the predictor, set or guard.
        metric: name of the metric.
        end: `"value"`, or an end of the interval, `"low"` or `"high"`.
        """
        rows = self.results.select(subject=subject).select(metric=metric).rows
        return [getattr(row, end) for row in rows]

    def __str__(self) -> str:
        from nescio.report.render import Page

        table = self.results.table(("subject", "metric"), "data")
        return f"{self.shift}: {self.description}\n\n{Page(tables=(table,)).text()}"

    def save(self, path: str | Path) -> None:
        """Write the numbers as JSON at `path`."""
        save_manifest(Path(path), {"kind": KIND, **to_json(self)})

    @classmethod
    def load(cls, path: str | Path) -> "ShiftCurves":
        """Read what `save` wrote at `path`."""
        return from_json(cls, load_manifest(Path(path), KIND), str(path))


@torch.no_grad()
def under_shift(
    predictors: Mapping[str, Predictor],
    data: tuple[Any, Any],
    shift: Shifted,
    *,
    strengths: Sequence[float] = range(6),
    sets: Mapping[str, Mapping[str, Rule]] | None = None,
    guards: Mapping[str, Callable[[Tensor], Any]] | None = None,
) -> ShiftCurves:
    """Quality, coverage and decisions on data at each strength of a shift.

    `under_shift({"network": model}, test, corruptions.rotation()).curve("network", "accuracy")`.

    predictors: predictors by name. Of classes: accuracy, NLL, Brier, ECE and mean maximum
      confidence; of numbers: root mean squared error and NLL.
    data: inputs and targets, `(x, y)`.
    shift: a shift, such as `nescio.data.corruptions.rotation()`.
    strengths: strengths of the shift; 0 to 5 by default; 0 leaves the data as they are.
    sets: prediction sets or intervals by the name of their predictor, then by their own: the share
      `covered` with its exact interval, and `size`.
    guards: guards by name; their `risk`, and the shares `answered`, `unsure`, `ood` and `wrong`.
    """
    sets, guards = sets or {}, guards or {}
    _check(predictors, sets, guards, strengths)
    x = as_inputs(data[0], keep_bytes=True)
    y = torch.as_tensor(data[1]).cpu()
    y = as_targets(y, len(x), task="regression" if y.is_floating_point() else "classification")
    places = tuple(
        DataSet(name=f"strength {s:g}", kind="shifted", samples=len(x), strength=float(s))
        for s in strengths
    )
    rows = [
        _row(subject, place.name, metric, number)
        for place in places
        for subject, numbers in _at(predictors, (x, y), shift, place.strength or 0.0, sets, guards)
        for metric, number in numbers.items()
    ]
    return ShiftCurves(
        shift=shift.name,
        description=shift.description,
        samples=len(x),
        rows=tuple(rows),
        sets=places,
    )


def _row(subject: str, data: str, metric: str, number: Interval | float | None) -> Row:
    ends = vars(number) if isinstance(number, Interval) else {"value": number}
    return Row(subject=subject, data=data, metric=metric, **ends)


def _at(
    predictors: Mapping[str, Predictor],
    data: tuple[Tensor, Tensor],
    shift: Shifted,
    strength: float,
    sets: Mapping[str, Mapping[str, Rule]],
    guards: Mapping[str, Callable[[Tensor], Any]],
) -> list[tuple[str, Numbers]]:
    """Everything at one strength by subject; inputs are shifted and read a piece at a time."""
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
    return [
        *((name, _quality(parts, y)) for name, parts in answers.items()),
        *((name, _coverage(torch.cat(parts))) for name, parts in covered.items()),
        *((name, _risk(torch.cat(parts))) for name, parts in decided.items()),
    ]


def _kept(prediction: Prediction, truth: Tensor) -> Any:
    """What the quality needs of a piece: log probabilities, or errors and densities."""
    if isinstance(prediction, Classification):
        return prediction.members, prediction.log_probs
    if not isinstance(prediction, Regression):
        raise NescioError(f"expected classes or numbers, got a {type(prediction).__name__}")
    target = truth.double()
    return prediction.mixture_mean, -prediction.log_prob(target)


def _quality(parts: list[Any], y: Tensor) -> Numbers:
    if isinstance(parts[0][0], int):
        seen = Seen(parts[0][0], torch.cat([logs for _, logs in parts]), {})
        return dict(quality(seen, y))
    means, nll = (torch.cat(column) for column in zip(*parts, strict=True))
    return {"rmse": rmse(means, y), "nll": nll.mean().item()}


def _held(region: Rule, prediction: Prediction, truth: Tensor, first: int) -> Tensor:
    """Whether a region holds the target, and its size: classes, or mean width; `(N, 2)`."""
    ours = isinstance(region, (Sets, Intervals))
    drawn = {"inputs": torch.arange(first, first + len(truth))} if ours else {}  # by their numbers
    found = region(prediction, **drawn)
    if isinstance(found, Tensor):
        in_dist, size = found.gather(1, truth[:, None])[:, 0], found.sum(1)
    else:
        low, high = (end.double() for end in found)
        in_dist = ((low <= truth) & (truth <= high)).all(1)
        size = (high - low).mean(1)
    return torch.stack([in_dist.double(), size.double()], dim=1)


def _coverage(found: Tensor) -> Numbers:
    share = binomial_interval(int(found[:, 0].sum()), len(found))
    return {"covered": share, "size": found[:, 1].mean().item()}


def _decisions(guard: Callable[[Tensor], Any], x: Tensor, truth: Tensor) -> Tensor:
    """The decision and whether the label is wrong, `(N, 2)`."""
    with quiet():
        found = guard(x)
    return torch.stack([found.decision.cpu(), (found.label.cpu() != truth).long()], dim=1)


def _risk(found: Tensor) -> Numbers:
    """Errors among the answers with their exact interval; no answers, no risk."""
    shares = {
        name: (found[:, 0] == code).double().mean().item()
        for name, code in (("answered", ANSWER), ("unsure", UNSURE), ("ood", OOD))
    }
    wrong = found[found[:, 0] == ANSWER, 1]
    risk = binomial_interval(int(wrong.sum()), len(wrong)) if len(wrong) else None
    return {**shares, "risk": risk, "wrong": int(wrong.sum()) / len(found)}


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
