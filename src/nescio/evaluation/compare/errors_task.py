"""The task "errors": how well scores find the errors of a network, against its confidence."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from nescio.calibration import fit_temperature
from nescio.core import Categorical, DataSet, NescioError, Numbers, Row, check_labels, numbers
from nescio.detectors import Activations, Detector, measured, msp
from nescio.detectors.failure.outputs import EXTRA, without_score
from nescio.evaluation.compare.comparison import About, Array, Comparison, SubjectAbout
from nescio.evaluation.compare.ood_inputs import pieces
from nescio.evaluation.compare.scoring import about_detector, observe_given
from nescio.evaluation.compare.subjects import candidates
from nescio.metrics import Interval
from nescio.metrics.bootstrapping import interval, resampled
from nescio.metrics.paired import resampled_difference
from nescio.metrics.selective import STATISTICS

BASELINE = "maximum probability"
NAMES = tuple(STATISTICS)
LESS = "_difference"  # ends the name of a metric less that of the baseline
Scored = Detector | Numbers


def compare_errors(
    subjects: Any,
    data: Any,
    ood: None = None,
    *,
    train: Any = None,
    detectors: Any = None,
    scores: Mapping[str, Any] | None = None,
    validation: Any = None,
    name: str = "test",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """The answers are those of the mean probabilities; all scores share the resamples.

    The maximum probability, as log-odds, is always there: all are compared with it. With an
    `extra_score` among the detectors the last output is not a class: the answers are those of the
    others. In place of data, activations with labels may stand.
    """
    if ood is not None:
        raise NescioError('the task "errors" reads no OOD data; leave ood out')
    if isinstance(data, Activations) and subjects is not None:
        raise NescioError(
            "activations hold the answers of their own network; compare(None, activations, ...), "
            "or give inputs and labels for the network"
        )
    more = {"progress": progress, **options}
    source = _only(subjects)
    test, fitted, held = (
        None if given is None else observe_given(source, where, given, **more)
        for where, given in ((name, data), ("train", train), ("validation", validation))
    )
    assert test is not None
    scored = _scored(detectors, scores, fitted, concentrations=test.concentrations)
    extra = any(_reads_score(value) for value in scored.values())
    classes = without_score(test) if extra else test
    mean = classes.mean()
    wrong = _wrong(mean, test)
    values = {BASELINE: _numbers(BASELINE, msp()(mean), test, classes)}
    values |= {one: _numbers(one, value, test, classes) for one, value in scored.items()}
    if held is not None and extra and held.classes == test.classes:
        held = without_score(held)
    temperature, why = (None, None) if held is None else _temperature(held)
    about = About(
        task="errors",
        data=name,
        samples=len(wrong),
        errors=int(wrong.sum()),
        networks=test.members,
        level=level,
        resamples=resamples,
        seed=seed,
        temperature=temperature,
        no_temperature=why,
        subjects=tuple(_about(one, value) for one, value in {BASELINE: None, **scored}.items()),
    )
    rows = tuple(_rows(values, wrong, name, level=level, resamples=resamples, seed=seed))
    confidence = {"before": _confidence(classes, 1.0)}
    if temperature is not None:
        confidence["after"] = _confidence(classes, temperature)
    by_set = {one: {name: found} for one, found in values.items()}
    sets = (DataSet(name=name, kind="test", samples=len(wrong)),)
    return Comparison(rows, sets, about, by_set, wrong, confidence)


def _wrong(mean: Activations, test: Activations) -> Array:
    """Which answers of the mean network are not the labels."""
    labels = check_labels(test.known(), test.classes, (test.samples,))
    return (mean.logits[0].argmax(-1) != labels.to(test.logits.device)).cpu().numpy()


def _scored(
    detectors: Any, scores: Any, train: Activations | None, *, concentrations: bool
) -> dict[str, Scored]:
    """Fitted detectors and given scores by name; predictive entropy where there are none."""
    if detectors is None and scores is None:
        return {"predictive entropy": measured("predictive_entropy")}
    if scores is not None and not isinstance(scores, Mapping):
        raise NescioError('give scores by name: {"mine": function or array}')
    read: dict[str, Any] = {"members": 1, "vectors": True, "concentrations": concentrations}
    chosen = [] if detectors is None else candidates(detectors, **read)
    scored: dict[str, Scored] = {}
    for one in chosen:
        try:
            scored[one.name] = one.ready(train)
        except NescioError:
            if one.asked:
                raise
    for name, value in (scores or {}).items():
        if scored.setdefault(name, value) is not value:
            raise NescioError(f"the name {name!r} is given twice; give one another name")
    if BASELINE in scored:
        raise NescioError(f"the name {BASELINE!r} is taken: all are compared with it; take another")
    return scored


def _about(name: str, value: Scored | None) -> SubjectAbout:
    if isinstance(value, Detector):
        return about_detector(name, value)
    return SubjectAbout(name=name, kind="score")


def _rows(values: Mapping[str, Array], wrong: Array, data: str, **how: Any) -> Iterator[Row]:
    """Every metric with its interval, and less that of the baseline with the paired interval."""
    found, drawn = resampled(values, wrong, **how)
    level = how["level"]
    for i, subject in enumerate(values):
        for j, metric in enumerate(NAMES):
            own = vars(interval(metric, float(found[i, j]), drawn[i, j], level))
            yield Row(subject=subject, data=data, metric=metric, **own)
            if i:
                gap = resampled_difference(found[[i, 0], j], drawn[[i, 0], j], level)
                less = vars(Interval(gap.value, gap.low, gap.high))
                yield Row(subject=subject, data=data, metric=f"{metric}{LESS}", **less)
                yield Row(subject=subject, data=data, metric=f"{metric}_p_value", value=gap.p)


def _only(subjects: Any) -> Any:
    if not isinstance(subjects, Mapping):
        return subjects
    if len(subjects) != 1:
        raise NescioError(
            'the task "errors" reads one network, whose errors are found; got '
            f"{', '.join(subjects) or 'none'}: compare each by itself, or give a list of networks "
            "for their mean"
        )
    (source,) = subjects.values()
    return source


def _reads_score(value: Any) -> bool:
    return isinstance(value, Detector) and value.name == EXTRA


def _numbers(name: str, value: Any, test: Activations, classes: Activations) -> Array:
    """Scores `(N,)`; the extra score is read from all outputs, others from those of classes."""
    if isinstance(value, Detector):
        value = value(test if _reads_score(value) else classes)
    elif callable(value):
        if test.inputs is None:
            raise NescioError(f"{name!r} reads inputs, which these activations do not have")
        with torch.no_grad():
            value = torch.cat([torch.as_tensor(value(piece)) for piece in pieces(test.inputs)])
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
