"""Many failure scores on one network, against its maximum probability."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.calibration import fit_temperature
from nescio.core import (
    Categorical,
    NescioError,
    Numbers,
    load_tensors,
    make_folder,
    numbers,
    save_tensors,
    unknown,
    write_atomically,
)
from nescio.detectors import Detector, measured, msp
from nescio.detectors.activations import Activations
from nescio.detectors.failure.extra_score import EXTRA, without_score
from nescio.metrics.bootstrapping import interval, resampled
from nescio.metrics.paired import resampled_difference
from nescio.metrics.selective import STATISTICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array: TypeAlias = NDArray[Any]
BASELINE = "maximum probability"
SCORES = "scores.safetensors"
NAMES = tuple(STATISTICS)
WHEN = ("before", "after")  # temperature, in the order of the panels


@dataclass(frozen=True, eq=False)
class FailureComparison:
    """The findings; `result` is what the JSON file holds, `scores` are by name."""

    result: dict[str, Any]
    scores: Mapping[str, Array] = field(repr=False)  # (N,) each, larger = less sure
    wrong: Array = field(repr=False)  # (N,)
    confidence: Mapping[str, Array] = field(repr=False)  # before and after temperature

    def value(self, score: str, metric: str = "ap_error") -> float:
        """One number of a score."""
        if score not in self.result["scores"]:
            raise NescioError(unknown("score", score, self.result["scores"]))
        if metric not in NAMES:
            raise NescioError(unknown("metric of failure prediction", metric, NAMES))
        return float(self.result["scores"][score]["metrics"][metric]["value"])

    @property
    def ranked(self) -> list[str]:
        """The scores, best AP of errors first."""
        return sorted(self.result["scores"], key=self.value, reverse=True)

    def __str__(self) -> str:
        from nescio.report.failure_table import failure_text

        return failure_text(self.result)

    def markdown(self) -> str:
        """The tables in Markdown."""
        from nescio.report.failure_table import failure_markdown

        return failure_markdown(self.result)

    def risk_coverage(self, scores: Sequence[str] | None = None) -> "Figure":
        """The error rate among the surest answers, against their share."""
        from nescio.report.plots.score_plots import risk_coverage_curves

        figure: Figure = risk_coverage_curves(self.result, self._chosen(scores), self.wrong)
        return figure

    def precision_recall(self, scores: Sequence[str] | None = None) -> "Figure":
        """Precision against recall, errors being what is looked for."""
        from nescio.report.plots.score_plots import precision_recall_curves

        figure: Figure = precision_recall_curves(self.result, self._chosen(scores), self.wrong)
        return figure

    def histograms(self) -> "Figure":
        """Maximum probabilities of right and wrong answers, before and after temperature."""
        from nescio.report.plots.score_plots import confidence_histograms

        figure: Figure = confidence_histograms(self.result, self.confidence, self.wrong)
        return figure

    def save(self, folder: str | Path, name: str = "failures", *, pictures: bool = True) -> Path:
        """Write NAME.txt, .md, .json, the scores and three pictures; returns the path of .md."""
        from nescio.report.plots.score_plots import png

        folder = make_folder(Path(folder))
        texts: dict[str, str | bytes] = {
            f"{name}.txt": str(self),
            f"{name}.md": self.markdown(),
            f"{name}.json": json.dumps(self.result, indent=2, allow_nan=False) + "\n",
        }
        if pictures:
            texts |= {
                "risk-coverage.png": png(self.risk_coverage()),
                "precision-recall.png": png(self.precision_recall()),
                "histograms.png": png(self.histograms()),
            }
        arrays = {"wrong": self.wrong}
        arrays |= {f"score/{i}": values for i, values in enumerate(self.scores.values())}
        arrays |= {f"confidence/{key}": values for key, values in self.confidence.items()}
        tensors = {key: torch.from_numpy(np.ascontiguousarray(a)) for key, a in arrays.items()}
        save_tensors(folder / SCORES, tensors, {"kind": "failures"})
        for file, content in texts.items():
            write_atomically(folder / file, content)
        return folder / f"{name}.md"

    @classmethod
    def load(cls, folder: str | Path, name: str = "failures") -> "FailureComparison":
        """Read what `save` wrote."""
        path = Path(folder) / f"{name}.json"
        try:
            result = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise NescioError(f"cannot read a comparison from {path}: {error}") from None
        if not isinstance(result, dict) or result.get("kind") != "failures":
            raise NescioError(f"{path} is no comparison of failure scores")
        arrays = {
            key: tensor.numpy()
            for key, tensor in load_tensors(Path(folder) / SCORES, "failures")[0].items()
        }
        try:
            scores = {one: arrays[f"score/{i}"] for i, one in enumerate(result["scores"])}
            wrong = arrays["wrong"]
        except KeyError as error:
            raise NescioError(f"{path} lacks scores {error}; compare again") from None
        keys = {when: f"confidence/{when}" for when in WHEN}
        shown = {when: arrays[key] for when, key in keys.items() if key in arrays}
        return cls(result, scores, wrong, shown)

    def _chosen(self, names: Sequence[str] | None) -> dict[str, Array]:
        for name in names or ():
            if name not in self.scores:
                raise NescioError(unknown("score", name, self.scores))
        return {name: self.scores[name] for name in names or self.ranked}


def compare_failures(
    test: Activations,
    scores: Mapping[str, Detector | Numbers] | None = None,
    *,
    held: Activations | None = None,
    name: str = "test",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> FailureComparison:
    """How well scores find the errors of one network, or of the mean of several.

    test: activations with labels. The network's answers are those of the mean probabilities.
    scores: by name, detectors or one number an input, larger = less sure; predictive entropy by
    default. The maximum probability, as log-odds, is always there: all are compared with it. With
    an `extra_score` among them the last output is no class: the answers are those of the others.
    held: activations with labels of other data, to fit a temperature on, for the histograms.
    """
    given = {"predictive entropy": measured("predictive_entropy")} if scores is None else scores
    if not isinstance(given, Mapping):
        raise NescioError('give scores by name: {"mine": detector}')
    if BASELINE in given:
        raise NescioError(f"the name {BASELINE!r} is taken: all are compared with it; take another")
    extra = any(_reads_score(value) for value in given.values())
    classes = without_score(test) if extra else test
    mean = classes.mean()
    truth = test.known().to(test.logits.device)
    wrong = (mean.logits[0].argmax(-1) != truth).cpu().numpy()
    every = {BASELINE: msp()(mean), **given}
    found = {one: _numbers(one, value, test, classes) for one, value in every.items()}
    values, drawn = resampled(found, wrong, level=level, resamples=resamples, seed=seed)
    rows = {
        one: {
            "metrics": {
                metric: asdict(interval(metric, float(values[i, j]), drawn[i, j], level))
                for j, metric in enumerate(NAMES)
            },
            "difference": None
            if i == 0
            else {
                metric: asdict(resampled_difference(values[[i, 0], j], drawn[[i, 0], j], level))
                for j, metric in enumerate(NAMES)
            },
        }
        for i, one in enumerate(found)
    }
    if held is not None and extra and held.classes == test.classes:
        held = without_score(held)
    temperature, why = (None, None) if held is None else _temperature(held)
    result = {
        "kind": "failures",
        "data": name,
        "samples": len(wrong),
        "errors": int(wrong.sum()),
        "networks": test.members,
        "level": level,
        "resamples": resamples,
        "baseline": BASELINE,
        "temperature": temperature,
        "no_temperature": why,
        "scores": rows,
    }
    shown = {"before": _confidence(classes, 1.0)}
    if temperature is not None:
        shown["after"] = _confidence(classes, temperature)
    return FailureComparison(result, found, wrong, shown)


def _reads_score(value: Detector | Numbers) -> bool:
    return isinstance(value, Detector) and value.name == EXTRA


def _numbers(
    name: str, value: Detector | Numbers, test: Activations, classes: Activations
) -> Array:
    """Scores `(N,)`; the extra score is read from all outputs, others from those of classes."""
    if isinstance(value, Detector):
        value = value(test if _reads_score(value) else classes)
    found = numbers(name, value, axes=1)
    if len(found) != test.samples:
        raise NescioError(f"{name!r} has {len(found)} scores for {test.samples} inputs")
    return found


def _temperature(held: Activations) -> tuple[float | None, str | None]:
    """The temperature, or why there is none."""
    try:
        return fit_temperature(Categorical(held.logits), held.known().long()), None
    except NescioError as error:
        return None, str(error)


def _confidence(test: Activations, temperature: float) -> Array:
    prediction = Categorical(test.logits.double() / temperature)
    values: Array = prediction.probs.amax(-1).cpu().numpy()
    return values
