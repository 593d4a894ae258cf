"""Part `overview`: our numbers beside the published ones, judged, and what longer training does."""

import math
from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Comparison, Findings, Settings, absent, numbers_of, sample, table
from nescio_papers.uci import published
from nescio_papers.uci.methods import ENSEMBLE, MC_DROPOUT
from nescio_papers.uci.one_table import FREE, PUBLISHED, mean_and_error, written
from nescio_papers.uci.pictures import against_published
from nescio_papers.uci.tables import TABLES

METRICS = {"rmse": ("RMSE", published.RMSE), "nll_moments": ("NLL", published.NLL)}
Found = Mapping[str, Mapping[str, Any]]  # numbers of each table that was run

TEXT = (
    "One hidden layer of 50 ReLU units (100 for protein), batches of 100, Adam, inputs and targets "
    "standardized by the training rows of each split; the head is Gaussian, the variance softplus "
    "+ 1e-6. Settings are tried on four fifths of the training rows of each split and judged by "
    "the NLL on the others (of an ensemble, by the larger one of both kinds of NLL below); then "
    "the networks are trained again on all training rows. Dropout and the precision of its noise "
    "are chosen for each split by itself. The learning rate, constant (0.1 as published, 0.03, "
    "0.01, 0.003) or falling to 0 by a cosine (from 0.1, 0.03, 0.01; of MC dropout constant 0.03 "
    "or 0.003 or falling from 0.03), and the other number of epochs are chosen for a table, by the "
    "mean over its splits, so they depend on rows that are test rows of another split, as every "
    "choice for a whole table does. No setting is chosen by a test score; the candidates, though, "
    "were widened after trial runs on Boston and Energy, whose test scores had been seen. The "
    "adversarial and the anchored ensemble take over what the deep ensemble chose. MC dropout is "
    "trained on the squared error, without the source's weight decay, which is about 1e-6 or less."
    "\n\n"
    "The published NLL of the deep ensemble is that of a normal density with the mixture's mean "
    "and variance, so it is compared with ours of that kind; the exact mixture has another column. "
    "Distances are in standard errors: the published standard deviation over the root of the "
    "number of splits (the table prints deviations for MC dropout and deep ensembles, standard "
    "errors for PBP), with what rounding to two digits adds, and ours. The splits are the same, so "
    "both numbers share much of their error: two standard errors of this kind are a lenient test."
)


def run(settings: Settings) -> Findings:
    """Everything that the parts of this folder found."""
    every = {name: numbers_of(settings, name) for name in TABLES}
    found = {name: numbers for name, numbers in every.items() if "methods" in numbers}
    if not found:
        return absent("the comparison with the published table", "no table was run")
    distances = {name: _distances(name, numbers) for name, numbers in found.items()}
    gains = {name: _gain(numbers) for name, numbers in found.items()}
    return Findings(
        numbers={
            "distances": distances,
            "longer": gains,
            "against MC dropout": {
                metric: _against_dropout(found, metric) for metric in ("nll", "rmse")
            },
        },
        figures={"uci.png": against_published(found)},
        captions={
            "uci.png": "Mean over the splits and standard error; published numbers gray. Left of a "
            "published number is better."
        },
        comparisons=_comparisons(found),
        text="\n\n".join([TEXT, *_tables(found, distances, gains)]),
    )


def _distances(name: str, numbers: Mapping[str, Any]) -> dict[str, float]:
    """How many standard errors our ensemble is worse than the published one."""
    own = numbers["methods"][ENSEMBLE][PUBLISHED]
    distances = {}
    for metric, (_, printed) in METRICS.items():
        mean, error = mean_and_error(own[metric])
        there = printed[name][ENSEMBLE]
        both = math.hypot(error, there.standard_error(numbers["splits"]))
        distances[metric] = (mean - there.value) / both
    return distances


def _gain(numbers: Mapping[str, Any]) -> dict[str, float]:
    """The NLL at the published epochs minus that of longer training, over the same splits."""
    own = numbers["methods"][ENSEMBLE]
    pairs = zip(own[PUBLISHED]["nll"], own[FREE]["nll"], strict=True)
    gains = [short - long for short, long in pairs]
    mean, error = mean_and_error(gains)
    return {"gain": mean, "standard_error": error, "half_width_95": sample(gains).half}


def _against_dropout(found: Found, metric: str) -> dict[str, dict[str, Any]]:
    """Ensemble less MC dropout at the published epochs, over the same splits, beside the latter."""
    differences = {}
    for name, numbers in found.items():
        one, two = (
            sample(numbers["methods"][method][PUBLISHED][metric])
            for method in (ENSEMBLE, MC_DROPOUT)
        )
        differences[name] = {**(one - two).numbers(), "MC dropout": two.mean}
    return differences


def _comparisons(found: Found) -> list[Comparison]:
    rows = []
    for name, numbers in found.items():
        own = numbers["methods"][ENSEMBLE][PUBLISHED]
        for metric, (title, printed) in METRICS.items():
            mean, error = mean_and_error(own[metric])
            there = printed[name][ENSEMBLE]
            note = f"standard errors {there.standard_error(numbers['splits']):.3f} and {error:.3f}"
            what = f"{TABLES[name].title}, deep ensemble, {title}"
            rows.append(Comparison(what, there.value, mean, note=note))
    return rows


def _tables(
    found: Found,
    distances: Mapping[str, Mapping[str, float]],
    gains: Mapping[str, Mapping[str, float]],
) -> list[str]:
    first = [
        [
            TABLES[name].title,
            *(f"{distances[name][metric]:+.1f}" for metric in METRICS),
            f"{gains[name]['gain']:.3f} ± {gains[name]['standard_error']:.3f}",
            f"{sum(own['cpu_seconds'] for own in numbers['methods'].values()):.0f}",
        ]
        for name, numbers in found.items()
    ]
    header = ["", "RMSE, distance", "NLL, distance", "NLL gained by longer training", "CPU seconds"]
    parts = [
        "Deep ensemble: how many standard errors it is worse than published (negative: better), "
        "and what the epochs that validation chose gain.",
        table(header, first),
    ]
    for metric, title in {"rmse": "RMSE", "nll": "NLL of the mixture", "crps": "CRPS"}.items():
        rows = [
            [TABLES[name].title, *(written(m[FREE][metric]) for m in own["methods"].values())]
            for name, own in found.items()
        ]
        methods = list(next(iter(found.values()))["methods"])
        parts += [f"{title}, epochs chosen on validation:", table(["", *methods], rows)]
    return parts
