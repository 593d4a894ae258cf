"""The task "ood": how well detectors and measures of predictors tell OOD data from test data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from nescio.core import DataSet, NescioError, Row, unknown
from nescio.core import progress as bar
from nescio.core.registry import measures as known_measures
from nescio.data import OODSource
from nescio.detectors import Activations, recorded_nets
from nescio.detectors.observe.network import networks
from nescio.evaluation.compare.areas import Areas, Bootstrap, mean_areas
from nescio.evaluation.compare.comparison import MEAN, About, Comparison
from nescio.evaluation.compare.ood_inputs import Absent, check_distinct, content_of
from nescio.evaluation.compare.scoring import (
    Observed,
    Scored,
    observed,
    of_detector,
    of_function,
    of_predictor,
    overlap,
)
from nescio.evaluation.compare.subjects import Subject, as_functions, as_predictors, candidates
from nescio.metrics.ranking import Positive, is_ood

MEASURES = ("log_odds", "predictive_entropy", "mutual_information")
OF_SET = ("aupr", "fpr_at_95_tpr")  # beside the AUROC


def compare_ood(
    subjects: Any,
    data: Any,
    ood: Mapping[str, Any],
    *,
    train: Any = None,
    detectors: Any = None,
    scores: Any = None,
    measures: Sequence[str] = MEASURES,
    near: Sequence[str] = (),
    name: str = "test",
    positive: Positive = "ood",
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Each data set passes the network once; all detectors read the same activations."""
    rule = Bootstrap(level, resamples, seed)
    is_ood(positive)
    there, absent = _ood(ood, name, near)
    source, others = _sources(subjects, measures)
    members = data.members if isinstance(data, Activations) else len(networks(source))
    functions = as_functions(scores, others)
    candidates(detectors, members=members, vectors=False)  # unknown names, before the work
    steps = 2 + len(there) + (train is not None)
    with bar(steps, "comparing detectors", show=progress) as advance:
        found = observed(source, {name: data, **there}, train, progress=progress, **options)
        hashed = {row: found.sets[row].hashes for row in there}
        check_distinct({row: content_of(own) for row, own in hashed.items() if own is not None})
        advance(steps - 2, lambda: "observed")
        scored, left_out = _scored(found, detectors, members)
        for other, predictor in others.items():
            scored += of_predictor(other, predictor, measures, found)
        scored += [of_function(Subject(key, one, None), found) for key, one in functions.items()]
        _check_names(scored)
        advance(1, lambda: "scored")
        means = _groups(tuple(there), near)
        rows = [*_rows(scored, name, tuple(there), means, rule, positive), *_costs(scored, found)]
        advance(1, lambda: "measured")
    about = About(
        task="ood",
        data=name,
        samples=found.sets[name].samples,
        level=level,
        resamples=resamples,
        seed=seed,
        subjects=tuple(one.about for one in scored),
        left_out=left_out,
        networks=members,
        layers=tuple(found.sets[name].features),
        train=0 if found.train is None else found.train.samples,
        positive=positive,
        forward_seconds_per_1000=1000 * found.seconds / found.passed,
    )
    sets = (*_sets(found, near, name), *absent, *means)
    return Comparison(tuple(rows), sets, about, {one.name: one.scores for one in scored})


def _ood(ood: Any, name: str, near: Sequence[str]) -> tuple[dict[str, Any], tuple[DataSet, ...]]:
    """OOD data that are there, and why others are not."""
    if not isinstance(ood, Mapping) or not ood:
        raise NescioError('give OOD data by name: {"letters": z}')
    if name in ood or MEAN in ood:
        taken = name if name in ood else MEAN
        raise NescioError(f"the name {taken!r} is taken; choose another for your OOD data")
    if isinstance(near, str):
        raise NescioError(f"near is a list of names of OOD data: near=[{near!r}]")
    for one in near:
        if one not in ood:
            raise NescioError(unknown("near OOD data", one, ood))
    for row, given in ood.items():
        if isinstance(given, OODSource) and given.size is None:
            raise NescioError(
                f"OOD data {row!r} are endless; say how many inputs to take: (source, 10000)"
            )
    there = {row: given for row, given in ood.items() if not isinstance(given, Absent)}
    if not there:
        reasons = "; ".join(f"{row}: {given.why}" for row, given in ood.items())
        raise NescioError(f"no OOD data is at hand: {reasons}")
    absent = [
        DataSet(name=row, kind=_kind(row, near), absent=given.why)
        for row, given in ood.items()
        if isinstance(given, Absent)
    ]
    return there, tuple(absent)


def _kind(name: str, near: Sequence[str]) -> str:
    return "near" if name in near else "ood"


def _sources(subjects: Any, measures: Any) -> tuple[Any, dict[str, Any]]:
    """The network that detectors read, and the predictors beside it."""
    if isinstance(measures, str):
        raise NescioError(f"measures is a list of names: measures=[{measures!r}]")
    for one in measures:
        known_measures[one]  # known?
    if not isinstance(subjects, Mapping):
        return subjects, {}
    if not subjects:
        raise NescioError("nothing to compare: there is no network")
    (_, source), *others = subjects.items()
    return source, as_predictors(dict(others))


def _scored(found: Observed, detectors: Any, members: int) -> tuple[list[Scored], dict[str, str]]:
    """Every detector's scores, and why some were left out."""
    some = next(iter(found.sets.values()))
    first = some.inputs
    vectors = isinstance(first, Tensor) and first.ndim == 2 and first.is_floating_point()
    vectors = vectors and not recorded_nets(some)  # those columns are no inputs of the network
    scored, left_out = [], {}
    given: dict[str, Any] = {
        "members": members,
        "vectors": vectors,
        "concentrations": some.concentrations,
    }
    for one in candidates(detectors, **given):
        try:
            scored.append(of_detector(one, found))
        except NescioError as error:
            if one.asked:
                raise
            left_out[one.name] = str(error)
    return scored, left_out


def _check_names(scored: Sequence[Scored]) -> None:
    names = [one.name for one in scored]
    if not names:
        raise NescioError("nothing to compare: there is no detector and no predictor")
    for name in names:
        if names.count(name) > 1:
            raise NescioError(f"two detectors are called {name!r}; give one another name")


def _groups(rows: tuple[str, ...], near: Sequence[str]) -> tuple[DataSet, ...]:
    """The OOD sets that are averaged together: all, and near and far ones where there are both."""
    close = tuple(row for row in rows if row in near)
    far = tuple(row for row in rows if row not in near)
    groups = {"near": close, "far": far} if close and far else {}
    return tuple(
        DataSet(name=f"mean, {name}", kind="mean", of=of)
        for name, of in {"all": rows, **groups}.items()
    )


def _rows(
    scored: Sequence[Scored],
    name: str,
    sets: Sequence[str],
    means: Sequence[DataSet],
    rule: Bootstrap,
    positive: Positive,
) -> Iterator[Row]:
    """AUROCs, which are tested together, then AUPR and FPR of each set and their means."""
    values: dict[tuple[str, str, str], float] = {}
    for data in sets:
        yield from _aurocs(scored, data, _areas(scored, name, [data]), rule.level)
        for one in scored:
            both = rule.ranking(one.scores[name], one.scores[data], OF_SET, positive)
            for metric, found in both.items():
                values[one.name, data, metric] = found.value
                yield Row(subject=one.name, data=data, metric=metric, **vars(found))
    for mean in means:
        yield from _aurocs(scored, mean.name, _areas(scored, name, mean.of), rule.level)
        for one in scored:
            for metric in OF_SET:
                value = sum(values[one.name, data, metric] for data in mean.of) / len(mean.of)
                yield Row(subject=one.name, data=mean.name, metric=metric, value=value)


def _areas(scored: Sequence[Scored], name: str, sets: Sequence[str]) -> Areas:
    return mean_areas([(one.scores[name], [one.scores[row] for row in sets]) for one in scored])


def _aurocs(scored: Sequence[Scored], data: str, areas: Areas, level: float) -> Iterator[Row]:
    """For each subject its AUROC, marked or not, and the p-value against the best."""
    p, first = areas.first(level)
    for k, one in enumerate(scored):
        found = vars(areas.interval(k, level))
        note = "best" if first[k] else ""
        yield Row(subject=one.name, data=data, metric="auroc", note=note, **found)
        yield Row(subject=one.name, data=data, metric="auroc_p_value", value=float(p[k]))


def _costs(scored: Sequence[Scored], found: Observed) -> Iterator[Row]:
    """Seconds of the fit, seconds per 1000 scores, and bytes of the fitted tensors."""
    for one in scored:
        costs = {
            "fit_seconds": one.fit_seconds,
            "score_seconds_per_1000": 1000 * one.score_seconds / found.samples,
            "bytes": float(one.bytes),
        }
        for metric, value in costs.items():
            yield Row(subject=one.name, data="", metric=metric, value=value)


def _sets(found: Observed, near: Sequence[str], name: str) -> tuple[DataSet, ...]:
    """The data sets: how many inputs, near or not, how many of them trained the detectors."""
    shared = overlap(found)
    return tuple(
        DataSet(
            name=key,
            kind="test" if key == name else _kind(key, near),
            samples=activations.samples,
            description=activations.about.get("data"),
            in_train=shared[key],
        )
        for key, activations in found.sets.items()
    )
