"""Detectors and predictors' measures on the same inputs: how well each tells data apart."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor, nn

from nescio import metrics
from nescio.core import NescioError, check_level, finite, unknown
from nescio.core.registry import measures as known_measures
from nescio.core.running import progress as bar
from nescio.data import OODSource
from nescio.detectors.observe.network import networks
from nescio.detectors.observe.pooling import Pool
from nescio.evaluation.compare.areas import Areas, mean_areas
from nescio.evaluation.compare.contestants import contestants
from nescio.evaluation.compare.detector_comparison import MEANS, DetectorComparison
from nescio.evaluation.compare.ood_inputs import Absent
from nescio.evaluation.compare.scored import (
    Observed,
    Scored,
    observed,
    of_detector,
    of_predictor,
    overlap,
)
from nescio.metrics.ranking import Positive, is_ood
from nescio.metrics.resampling import check
from nescio.models import Predictor, plain
from nescio.nets import Output
from nescio.version import VERSION

MEASURES = ("log_odds", "predictive_entropy", "mutual_information")


def compare_detectors(
    source: Any,
    data: Any,
    ood: Mapping[str, Any],
    *,
    train: Any = None,
    detectors: Any = None,
    predictors: Mapping[str, nn.Module | Predictor] | None = None,
    measures: Sequence[str] = MEASURES,
    near: Sequence[str] = (),
    layers: Any = None,
    pool: Pool = "mean",
    output: Output = None,
    name: str = "test",
    positive: Positive = "ood",
    level: float = 0.95,
    resamples: int = 500,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> DetectorComparison:
    """Say how well detectors tell data that a network does not know from data that it knows.

    source: an `nn.Module`, a nescio model, or a list of modules. data: in-distribution data that
    nothing was trained on. outside: OOD data by name: inputs, an OOD source with a count
    `(ood, 10000)`, or an `Absent`. near: names of those that are near the in-distribution data.
    train: what detectors are fitted on, `(x, y)`; without it, only those without a fit.
    detectors: names, with options as in "knn,k=10", also of measures; or by name a name, a fitted
    detector, or a function of training activations. None, or "all" among them: all that can be
    made.
    predictors: others to compare with, such as MC dropout, by name; each is ranked by `measures`.
    layers, pool, output, batch_size: as for `observe`. Each data set passes the network once.

    For each OOD set: AUROC with DeLong's interval, AUPR and FPR at 95 % TPR (`positive` says in
    which sense) with bootstrap intervals of `resamples` draws; 0 leaves those out. The best AUROCs
    are marked where a paired test, corrected for all pairs, sets them apart from others.
    """
    check_level(level)
    if resamples:
        check(level, resamples, seed)
    is_ood(positive)
    given, absent = _ood(ood, name, near)
    members = len(networks(source))
    others = _predictors(predictors, measures)
    contestants(detectors, members=members, vectors=False)  # unknown names, before the work
    steps = 2 + len(given) + (train is not None)
    with bar(steps, "comparing detectors", show=progress) as advance:
        options = {"layers": layers, "pool": pool, "output": output, "batch_size": batch_size}
        found = observed(source, {name: data, **given}, train, progress=progress, **options)
        advance(steps - 2, lambda: "observed")
        scored, missing = _scored(found, detectors, members)
        for other, predictor in others.items():
            scored += of_predictor(other, predictor, measures, found)
        _check_names(scored)
        advance(1, lambda: "scored")
        cells = {
            one.name: {
                row: _cell(one, name, row, positive, level, resamples, seed) for row in given
            }
            for one in scored
        }
        groups = _groups(tuple(given), near)
        _add_aurocs(scored, name, groups["all"], cells, level)
        means = {group: _means(scored, name, rows, cells, level) for group, rows in groups.items()}
        advance(1, lambda: "measured")
    return DetectorComparison(
        finite(
            {
                "kind": "detectors",
                "nescio": VERSION,
                "data": name,
                "samples": found.sets[name].samples,
                "networks": members,
                "layers": list(found.sets[name].features),
                "train": 0 if found.train is None else found.train.samples,
                "positive": positive,
                "level": level,
                "resamples": resamples,
                "seed": seed,
                "forward_seconds": 1000 * found.seconds / found.passed,
                "sets": _sets(found, near, absent),
                "groups": groups,
                "detectors": {
                    one.name: {
                        **one.about,
                        "fit_seconds": one.fit_seconds,
                        "score_seconds": 1000 * one.score_seconds / found.samples,
                        "bytes": one.bytes,
                        "rows": cells[one.name],
                        "means": {group: part[one.name] for group, part in means.items()},
                    }
                    for one in scored
                },
                "left_out": missing,
            }
        ),
        {one.name: one.scores for one in scored},
    )


def _ood(ood: Any, name: str, near: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """OOD data that are there, and why others are not."""
    if not isinstance(ood, Mapping) or not ood:
        raise NescioError('give OOD data by name: {"letters": z}')
    if name in ood:
        raise NescioError(f"the name {name!r} is taken; choose another for your OOD data")
    if isinstance(near, str):
        raise NescioError(f"near is a list of names of OOD data: near=[{near!r}]")
    for one in near:
        if one not in ood:
            raise NescioError(unknown("near OOD data", one, ood))
    for row, given in ood.items():
        if isinstance(given, OODSource) and given.size is None:
            raise NescioError(
                f"OOD data {row!r} are endless; say how many inputs to take: (outside, 10000)"
            )
    there = {row: given for row, given in ood.items() if not isinstance(given, Absent)}
    if not there:
        reasons = "; ".join(f"{row}: {given.why}" for row, given in ood.items())
        raise NescioError(f"no OOD data is at hand: {reasons}")
    return there, {row: given.why for row, given in ood.items() if isinstance(given, Absent)}


def _predictors(given: Any, chosen: Any) -> dict[str, Predictor]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(callable(one) for one in given.values()):
        raise NescioError('predictors come by name: {"MC dropout": predictor}')
    if isinstance(chosen, str):
        raise NescioError(f"measures is a list of names: measures=[{chosen!r}]")
    for one in chosen:
        known_measures[one]  # known?
    return {name: plain(p) if isinstance(p, nn.Module) else p for name, p in given.items()}


def _scored(found: Observed, detectors: Any, members: int) -> tuple[list[Scored], dict[str, str]]:
    """Every detector's scores, and why some were left out."""
    first = next(iter(found.sets.values())).inputs
    vectors = isinstance(first, Tensor) and first.ndim == 2 and first.is_floating_point()
    scored, missing = [], {}
    for one in contestants(detectors, members=members, vectors=vectors):
        try:
            scored.append(of_detector(one, found))
        except NescioError as error:
            if one.asked:
                raise
            missing[one.name] = str(error)
    return scored, missing


def _check_names(scored: Sequence[Scored]) -> None:
    names = [one.name for one in scored]
    if not names:
        raise NescioError("nothing to compare: there is no detector and no predictor")
    for name in names:
        if names.count(name) > 1:
            raise NescioError(f"two detectors are called {name!r}; give one another name")


def _cell(
    one: Scored,
    name: str,
    row: str,
    positive: Positive,
    level: float,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """AUPR and FPR at 95 % TPR of one OOD set; the AUROC is added where all are ranked."""
    in_dist, ood = one.scores[name], one.scores[row]
    if resamples:
        both = metrics.bootstrap_ranking(
            in_dist,
            ood,
            of=("aupr", "fpr_at_tpr"),
            positive=positive,
            level=level,
            resamples=resamples,
            seed=seed,
        )
        return {"aupr": asdict(both["aupr"]), "fpr_at_95_tpr": asdict(both["fpr_at_tpr"])}
    ranking = metrics.rank(in_dist, ood)
    aupr = ranking.aupr if positive == "ood" else ranking.aupr_in_dist
    rate = ranking.fpr_at_tpr(0.95, positive)
    bare = {"low": None, "high": None}
    return {"aupr": {"value": aupr, **bare}, "fpr_at_95_tpr": {"value": rate, **bare}}


def _groups(rows: tuple[str, ...], near: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The OOD sets that are averaged together: all, and near and far ones where there are both."""
    close = tuple(row for row in rows if row in near)
    far = tuple(row for row in rows if row not in near)
    return {"all": rows, "near": close, "far": far} if close and far else {"all": rows}


def _add_aurocs(
    scored: Sequence[Scored],
    name: str,
    rows: Sequence[str],
    cells: Mapping[str, Mapping[str, dict[str, Any]]],
    level: float,
) -> None:
    """Put the AUROCs of all detectors, which are tested together, into their cells."""
    for row in rows:
        for one, found in zip(scored, _auroc(_areas(scored, name, [row]), level), strict=True):
            cells[one.name][row].update(found)


def _means(
    scored: Sequence[Scored],
    name: str,
    rows: Sequence[str],
    cells: Mapping[str, Mapping[str, dict[str, Any]]],
    level: float,
) -> dict[str, dict[str, Any]]:
    """Means over the rows by detector; those of AUROCs have an interval and a test."""
    means = {}
    for one, found in zip(scored, _auroc(_areas(scored, name, rows), level), strict=True):
        values = {
            key: sum(cells[one.name][row][key]["value"] for row in rows) / len(rows)
            for key in MEANS
        }
        means[one.name] = {**found, **{key: {"value": value} for key, value in values.items()}}
    return means


def _areas(scored: Sequence[Scored], name: str, rows: Sequence[str]) -> Areas:
    return mean_areas([(one.scores[name], [one.scores[row] for row in rows]) for one in scored])


def _auroc(areas: Areas, level: float) -> list[dict[str, Any]]:
    """For each detector its AUROC, the p-value against the best, and whether it is marked."""
    p, first = areas.first(level)
    return [
        {"auroc": asdict(areas.interval(k, level)), "p": float(p[k]), "best": first[k]}
        for k in range(len(first))
    ]


def _sets(
    found: Observed, near: Sequence[str], absent: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """The data sets: how many inputs, near or not, how many of them trained the detectors."""
    known = overlap(found)
    sets: dict[str, dict[str, Any]] = {
        name: {
            "samples": activations.samples,
            "data": activations.about.get("data"),
            "near": name in near,
            "in_train": known[name],
        }
        for name, activations in found.sets.items()
    }
    return sets | {name: {"absent": why, "near": name in near} for name, why in absent.items()}
