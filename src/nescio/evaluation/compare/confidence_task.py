"""The task "confidence": confidence of predictors off their data (Hein et al., 2019, table 1)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from nescio.attacks import Attacked
from nescio.core import DataSet, NescioError, Row, as_inputs, as_targets, check_labels, only_tensor
from nescio.core import progress as bar
from nescio.core.registry import measures as known_measures
from nescio.data import Columns, door
from nescio.detectors.observe import scorer
from nescio.evaluation.compare.areas import Bootstrap
from nescio.evaluation.compare.comparison import About, Comparison, Published, SubjectAbout
from nescio.evaluation.compare.ood_inputs import (
    Absent,
    AdversarialNoise,
    AdversarialSamples,
    Probe,
    as_probe,
    check_distinct,
    describe,
    pieces,
)
from nescio.evaluation.compare.scoring import about_detector, observe_given
from nescio.evaluation.compare.subjects import (
    Answers,
    Array,
    Look,
    Subject,
    as_functions,
    as_predictors,
    candidates,
)
from nescio.metrics import Interval
from nescio.models import Model, as_head, encoding_of

FILTERED = ", misclassified"  # ends the name of the filtered row of adversarial samples
REJECTED = 1.01  # times 1 / C: a smaller confidence counts as no class at all
REDRAWN = 4  # times that the masks of MC dropout are drawn again for an interval
OF_SET = ("auroc", "fpr_at_95_tpr")
Data = tuple[Tensor, Tensor | None]  # inputs and labels
Cell = dict[str, Interval | float]  # numbers of a row by metric
Named = tuple[Subject, SubjectAbout]


def compare_confidence(
    subjects: Any,
    data: tuple[Any, Any],
    ood: Mapping[str, Any],
    *,
    train: Any = None,
    detectors: Any = None,
    scores: Any = None,
    measures: str = "log_odds",
    published: Published | None = None,
    name: str = "test",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Mean maximum confidence, AUROC and FPR of each subject on each row, also under attack."""
    if not isinstance(measures, str):
        raise NescioError('the task "confidence" ranks by one measure: measures="log_odds"')
    measure = known_measures[measures]
    rule = Bootstrap(level, resamples, seed)
    predictors = as_predictors(subjects)
    columns = next(map(encoding_of, predictors.values()), None)
    inputs, labels = door.read(data, name="test data", labels=False, columns=columns)
    inputs = only_tensor(inputs, 'the task "confidence"')
    x = as_inputs(inputs, "in-distribution data", keep_bytes=True)
    named = _subjects(subjects, measure, measures, scores)
    named += _detectors(subjects, detectors, train, [one.name for one, _ in named], options)
    if not named:
        raise NescioError("nothing to compare: there is no predictor and no detector")
    y = _labels(labels, len(x), [one for one, _ in named])
    probes = _probes(ood, name, tuple(x.shape[1:]), columns)
    if any(one.measure is not None for one, _ in named):  # detectors get no label wrong
        for probe in probes.values():
            if isinstance(probe, AdversarialSamples):
                probe.check(x)
    rows: list[Row] = []
    with bar(len(named) * (1 + len(probes)), "comparing", show=progress) as advance:
        for subject, _ in named:
            looks = subject.looks(name, x, REDRAWN if resamples else 0)
            in_dist = looks[0]
            rows += _as_rows(subject.name, name, _in_dist(looks, y, rule))
            advance(1, lambda who=subject.name: who)  # type: ignore[misc]
            for row, probe in probes.items():
                rows += _ood(subject, in_dist, (x, y), row, probe, rule)
                advance(1, lambda who=subject.name, row=row: f"{who}, {row}")  # type: ignore[misc]
    about = About(
        task="confidence",
        data=name,
        samples=len(x),
        features=tuple(x.shape[1:]),
        measure=measures,
        level=level,
        resamples=resamples,
        seed=seed,
        subjects=tuple(one for _, one in named),
    )
    test = DataSet(name=name, kind="test", description=describe(x))
    comparison = Comparison(tuple(rows), (test, *_sets(probes)), about)
    return comparison if published is None else comparison.beside(published)


def _subjects(subjects: Any, measure: Any, measured: str, scores: Any) -> list[Named]:
    predictors = as_predictors(subjects)
    functions = as_functions(scores, predictors)
    return [
        *(
            (Subject(n, p, measure), SubjectAbout(name=n, kind="predictor", measure=measured))
            for n, p in predictors.items()
        ),
        *(
            (Subject(n, f, None), SubjectAbout(name=n, kind="function"))
            for n, f in functions.items()
        ),
    ]


def _detectors(
    subjects: Any, given: Any, train: Any, taken: list[str], options: dict[str, Any]
) -> list[Named]:
    """Detectors fitted to the first network, as functions of inputs."""
    if given is None:
        return []
    net = next(iter(subjects.values()), None) if isinstance(subjects, Mapping) else subjects
    if net is None:
        raise NescioError("detectors read a network: give one as the first subject")
    known = None if train is None else observe_given(net, "train", train, **options)
    kept = {key: options[key] for key in ("pool", "batch_size") if key in options}
    named = []
    head = net.head if isinstance(net, Model) else as_head(options.get("head"))
    spread = head.log_concentrations is not None
    for one in candidates(given, members=1, vectors=False, concentrations=spread):
        if one.name in taken:
            raise NescioError(f"the name {one.name!r} is given twice; give one another name")
        detector = one.ready(known)
        function = scorer(net, detector, **kept)
        named.append((Subject(one.name, function, None), about_detector(one.name, detector)))
    return named


def _labels(given: Any, samples: int, subjects: Iterable[Subject]) -> Tensor | None:
    if given is None:
        if not all(subject.measure is None for subject in subjects):
            raise NescioError("predictors need labels: data=(inputs, labels)")
        return None
    return as_targets(given, samples, task="classification").cpu()


def _probes(
    ood: Any, name: str, shape: tuple[int, ...], columns: Columns | None
) -> dict[str, Probe]:
    if not isinstance(ood, Mapping):
        raise NescioError('OOD data come by name: {"letters": z}')
    if not ood:
        raise NescioError('there are no OOD data; give some by name: {"letters": z}')
    probes = {row: as_probe(row, given, shape, columns) for row, given in ood.items()}
    names = [name, *(n for row, probe in probes.items() for n in _names(row, probe))]
    for row in names:
        if names.count(row) > 1:
            raise NescioError(f"the name {row!r} is taken; choose another for your OOD data")
    there = {row: probe for row, probe in probes.items() if not isinstance(probe, Absent)}
    check_distinct({row: describe(probe) for row, probe in there.items()})
    return probes


def _names(row: str, probe: Probe) -> list[str]:
    return [row, f"{row}{FILTERED}"] if isinstance(probe, AdversarialSamples) else [row]


def _sets(probes: Mapping[str, Probe]) -> list[DataSet]:
    sets = []
    for row, probe in probes.items():
        attacked = isinstance(probe, (AdversarialNoise, AdversarialSamples))
        kind = "adversarial" if attacked else "ood"
        key = "absent" if isinstance(probe, Absent) else "description"
        text: dict[str, Any] = {key: describe(probe)}
        sets += [DataSet(name=name, kind=kind, **text) for name in _names(row, probe)]
    return sets


def _as_rows(subject: str, data: str, cell: Cell, note: str = "") -> list[Row]:
    """The numbers of a cell; the note says why there are none."""
    return [
        Row(subject=subject, data=data, metric=metric, **vars(found))
        if isinstance(found, Interval)
        else Row(subject=subject, data=data, metric=metric, value=float(found), note=note)
        for metric, found in cell.items()
    ]


def _in_dist(looks: Sequence[Look], y: Tensor | None, rule: Bootstrap) -> Cell:
    """The numbers of the first look, whose intervals hold what differs between all of them."""
    samples, every = len(looks[0].scores), [one for one in looks if isinstance(one, Answers)]
    if y is None or not every:
        return {"samples": samples}
    truth = check_labels(y, every[0].classes, every[0].labels.shape).numpy()
    return {
        "samples": samples,
        "error": rule.mean(np.stack([one.labels != truth for one in every])),
        "mean_max_confidence": rule.mean(np.stack([one.confidence for one in every])),
    }


def _ood(
    subject: Subject, in_dist: Look, data: Data, row: str, probe: Probe, rule: Bootstrap
) -> list[Row]:
    """The rows of one subject on one probe."""
    x, y = data
    if isinstance(probe, Absent):
        return []
    if isinstance(probe, (AdversarialNoise, AdversarialSamples)):
        why = subject.obstacle(probe, x[:1])
        if why is not None:
            names = _names(row, probe)
            return [r for n in names for r in _as_rows(subject.name, n, {"samples": 0}, why)]
    if isinstance(probe, AdversarialNoise):
        near = probe.near_detector if subject.measure is None else probe.near
        found = near(subject.source)
        cell = _cell(in_dist, subject.look(row, pieces(found.x)), rule) | _blind(found)
        return _as_rows(subject.name, row, cell)
    if not isinstance(probe, AdversarialSamples):
        return _as_rows(subject.name, row, _cell(in_dist, subject.look(row, pieces(probe)), rule))
    assert y is not None  # a predictor has labels
    chosen = probe.chosen(len(x)).to(x.device)
    labels = y[chosen.cpu()]
    found = probe.near(subject.source, x[chosen], labels)
    answers = subject.look(row, pieces(found.x))
    assert isinstance(answers, Answers)
    parts = (answers, answers.where(~still_right(answers, labels.numpy())))
    cells = [_cell(in_dist, part, rule) | _blind(found) for part in parts]
    named = zip(_names(row, probe), cells, strict=True)
    return [one for name, cell in named for one in _as_rows(subject.name, name, cell)]


def _blind(found: Attacked) -> Cell:
    """The share of inputs on which the attack had no gradient to follow."""
    return {"blind": found.blind.double().mean().item()}


def still_right(answers: Answers, labels: Array) -> Array:
    """Whether the label is the most probable class, and not by a near tie of all classes."""
    right: Array = (answers.labels == labels) & (answers.confidence >= REJECTED / answers.classes)
    return right


def _cell(in_dist: Look, look: Look, rule: Bootstrap) -> Cell:
    """The numbers of one row; only the count where no input is left."""
    samples = len(look.scores)
    if not samples:
        return {"samples": 0}
    cell: Cell = {"samples": samples}
    if isinstance(look, Answers):
        cell["mean_max_confidence"] = rule.mean(look.confidence)
    return cell | rule.ranking(in_dist.scores, look.scores, OF_SET, "in_dist")
