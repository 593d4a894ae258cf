"""Predictors and detectors on data they do not know: the table of Hein et al. (2019), table 1."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.attacks import Attacked
from nescio.core import NescioError, as_inputs, as_targets, check_labels, finite
from nescio.core.registry import measures
from nescio.core.running import progress as bar
from nescio.evaluation.compare.ood_inputs import (
    Absent,
    AdversarialNoise,
    AdversarialSamples,
    Detector,
    Probe,
    as_probe,
    describe,
    pieces,
)
from nescio.evaluation.compare.predictor_comparison import Comparison, Published
from nescio.evaluation.compare.subjects import Answers, Array, Look, Subject, as_subjects
from nescio.models import Predictor
from nescio.version import VERSION

FILTERED = ", misclassified"  # ends the name of the filtered row of adversarial samples
REJECTED = 1.01  # times 1 / C: what is less sure counts as no class at all
Cell = dict[str, Any]
Data = tuple[Tensor, Tensor | None]  # inputs and labels


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def compare(
    predictors: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: tuple[Any, Any],
    ood: Mapping[str, Any],
    *,
    detectors: Mapping[str, Detector] | None = None,
    name: str = "test",
    measure: str = "log_odds",
    published: Published | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Say how sure predictors are off their data, and how well that tells the data apart.

    predictors: a network, a predictor, or several by name. data: in-distribution data, inputs and
    labels. ood: rows by name. A row is a tensor of inputs, an OOD source with a count
    `(ood, 10000)`, an `AdversarialNoise`, an `AdversarialSamples`, or an `Absent`.
    detectors: functions of inputs to scores (N,) by name, larger = further out. They have neither
    error nor confidence; with detectors only, predictors is {} and labels may be None.
    name: of the row of the in-distribution data. published: numbers to print below ours, see
    `beside`. measure: what predictors rank inputs by; log-odds are the order of the confidence, in
    float64 and without the ties of probabilities that round to 1.

    For each row: mean maximum confidence, AUROC, and FPR at 95 % TPR in the paper's sense (the
    share of OOD data taken for in-distribution data where 95 % of the in-distribution data are
    accepted), each with a bootstrap interval of `level` from `resamples` draws; 0 leaves the
    intervals out.
    """
    subjects = as_subjects(predictors, detectors, measures[measure])
    x = as_inputs(data[0], "in-distribution data", keep_bytes=True)
    y = _labels(data[1], len(x), subjects)
    probes = _probes(ood, name, tuple(x.shape[1:]))
    rule = Rule(level, resamples, seed)
    if any(subject.measure is not None for subject in subjects):  # detectors get no label wrong
        for probe in probes.values():
            if isinstance(probe, AdversarialSamples):
                probe.check(x)
    found: dict[str, Any] = {}
    with bar(len(subjects) * (1 + len(probes)), "comparing", show=progress) as advance:
        for subject in subjects:
            in_dist = subject.look(name, pieces(x))
            rows = {name: _in_dist(in_dist, y, rule)}
            advance(1, lambda who=subject.name: who)  # type: ignore[misc]
            for row, probe in probes.items():
                rows |= _ood(subject, in_dist, (x, y), row, probe, rule)
                advance(1, lambda who=subject.name, row=row: f"{who}, {row}")  # type: ignore[misc]
            found[subject.name] = {"detector": subject.measure is None, "rows": rows}
    result = {
        "kind": "comparison",
        "nescio": VERSION,
        "data": name,
        "samples": len(x),
        "features": list(x.shape[1:]),
        "measure": measure,
        **asdict(rule),
        "sets": {name: {"description": describe(x)}, **_sets(probes)},
        "predictors": found,
        "published": {},
    }
    comparison = Comparison(finite(result))
    return comparison if published is None else comparison.beside(published)


@dataclass(frozen=True)
class Rule:
    """How intervals are made."""

    level: float
    resamples: int
    seed: int

    def __post_init__(self) -> None:
        if self.resamples != 0:
            metrics.bootstrap_mean([0.0], **asdict(self))  # says what is wrong before the work

    def mean(self, values: Array) -> dict[str, float | None]:
        """The mean of one number per sample."""
        if self.resamples == 0:
            return _bare(float(values.mean()))
        return asdict(metrics.bootstrap_mean(values, **asdict(self)))

    def ranking(self, in_dist: Array, ood: Array) -> Cell:
        """AUROC and FPR at 95 % TPR, inside as the positive class."""
        if self.resamples == 0:
            ranking = metrics.rank(in_dist, ood)
            area, rate = _bare(ranking.auroc), _bare(ranking.fpr_at_tpr(0.95, "in_dist"))
            return {"auroc": area, "fpr_at_95_tpr": rate}
        found = metrics.bootstrap_ranking(in_dist, ood, positive="in_dist", **asdict(self))
        return {"auroc": asdict(found["auroc"]), "fpr_at_95_tpr": asdict(found["fpr_at_tpr"])}


def _bare(value: float) -> dict[str, float | None]:
    return {"value": value, "low": None, "high": None}


def _labels(given: Any, samples: int, subjects: Iterable[Subject]) -> Tensor | None:
    if given is None:
        if not all(subject.measure is None for subject in subjects):
            raise NescioError("predictors need labels: data=(inputs, labels)")
        return None
    return as_targets(given, samples, task="classification").cpu()


def _probes(ood: Any, name: str, shape: tuple[int, ...]) -> dict[str, Probe]:
    if not isinstance(ood, Mapping):
        raise NescioError('OOD data come by name: {"letters": z}')
    if not ood:
        raise NescioError('there are no OOD data; give some by name: {"letters": z}')
    probes = {row: as_probe(row, given, shape) for row, given in ood.items()}
    names = [name, *(n for row, probe in probes.items() for n in _names(row, probe))]
    for row in names:
        if names.count(row) > 1:
            raise NescioError(f"the name {row!r} is taken; choose another for your OOD data")
    return probes


def _names(row: str, probe: Probe) -> list[str]:
    return [row, f"{row}{FILTERED}"] if isinstance(probe, AdversarialSamples) else [row]


def _sets(probes: Mapping[str, Probe]) -> dict[str, dict[str, str]]:
    return {
        name: {"absent" if isinstance(probe, Absent) else "description": describe(probe)}
        for row, probe in probes.items()
        for name in _names(row, probe)
    }


def _in_dist(in_dist: Look, y: Tensor | None, rule: Rule) -> Cell:
    samples = len(in_dist.scores)
    if y is None or not isinstance(in_dist, Answers):
        return {"samples": samples}
    truth = check_labels(y, in_dist.classes, in_dist.labels.shape).numpy()
    return {
        "samples": samples,
        "error": rule.mean(in_dist.labels != truth),
        "mean_max_confidence": rule.mean(in_dist.confidence),
    }


def _ood(
    subject: Subject, in_dist: Look, data: Data, row: str, probe: Probe, rule: Rule
) -> dict[str, Cell]:
    """The cells of one subject in the rows of one probe."""
    x, y = data
    if isinstance(probe, Absent):
        return {}
    if isinstance(probe, (AdversarialNoise, AdversarialSamples)):
        why = subject.obstacle(probe, x[:1])
        if why is not None:
            return {name: {"samples": 0, "skipped": why} for name in _names(row, probe)}
    if isinstance(probe, AdversarialNoise):
        near = probe.near_detector if subject.measure is None else probe.near
        found = near(subject.source)
        return {row: _cell(in_dist, subject.look(row, pieces(found.x)), rule) | _blind(found)}
    if not isinstance(probe, AdversarialSamples):
        return {row: _cell(in_dist, subject.look(row, pieces(probe)), rule)}
    assert y is not None  # a predictor has labels
    chosen = probe.chosen(len(x)).to(x.device)
    labels = y[chosen.cpu()]
    found = probe.near(subject.source, x[chosen], labels)
    seen = subject.look(row, pieces(found.x))
    assert isinstance(seen, Answers)
    parts = (seen, seen.where(~_still_right(seen, labels.numpy())))
    cells = [_cell(in_dist, part, rule) | _blind(found) for part in parts]
    return dict(zip(_names(row, probe), cells, strict=True))


def _blind(found: Attacked) -> Cell:
    """The share of inputs on which the attack had no gradient to follow."""
    return {"blind": found.blind.double().mean().item()}


def _still_right(seen: Answers, labels: Array) -> Array:
    """Whether the label is the most probable class, and not by a near tie of all classes."""
    right: Array = (seen.labels == labels) & (seen.confidence >= REJECTED / seen.classes)
    return right


def _cell(in_dist: Look, seen: Look, rule: Rule) -> Cell:
    """The numbers of one row; only the count where no input is left."""
    samples = len(seen.scores)
    if not samples:
        return {"samples": 0}
    sure = {"mean_max_confidence": rule.mean(seen.confidence)} if isinstance(seen, Answers) else {}
    return {"samples": samples, **sure, **rule.ranking(in_dist.scores, seen.scores)}
