"""Which claims on failure prediction hold, from the numbers of the part `failure`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scipy.special import stdtrit

from nescio.evaluation.compare.errors_task import BASELINE
from nescio_papers.kit import A_SHARE, Claim, Comparison, Fact
from nescio_papers.robust_deep_learning.failure_picture import ORACLE
from nescio_papers.robust_deep_learning.stored_facts import (
    RECALLED,
    between,
    learned,
    mean_of,
    over_seeds,
)

SOURCE = "lecture, Failure Prediction"
COOLED = "maximum probability, after temperature"
MC, ENSEMBLE = "MC dropout", "ensemble of all seeds"
RECOMMENDED = "recommended, with folds"
TRUST = "trust score"
SEPARATED = 0.95  # an AUROC that we call apart
SOLVED = 0.99  # an AUROC from which the overlap would be solved
SMALL = 0.01  # a gain of average precision that is none
# Corbière et al. (2019), table 1: FPR at 95 % TPR, AP of errors and AUROC, in per cent
PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "MNIST": {
        BASELINE: (14.87, 37.70, 97.13),
        MC: (15.15, 38.22, 97.15),
        TRUST: (12.31, 52.18, 97.52),
    },
    "CIFAR-10": {BASELINE: (47.50, 45.36, 91.53)},
}
KEYS = {"fpr_at_tpr": "FPR at 95 % TPR", "ap_error": "AP of errors", "auroc": "AUROC of errors"}
NOTES = {
    "MNIST": f"{RECALLED}; Corbière et al.: width 1000, SGD for 100 epochs",
    "CIFAR-10": f"{RECALLED}; Corbière et al.: VGG-16, all training images; all depend on the "
    "test error",
}
Numbers = Mapping[str, Any]


def judge(numbers: Mapping[str, Numbers]) -> list[Claim]:
    """The claims on each data set that was judged, where the networks have learned it."""
    return [
        replace(claim, needs=learned(name, "test error", part.get("error", math.nan)))
        for name, part in numbers.items()
        if "scores" in part
        for claim in (
            overlap_claim(name, part),
            ranking_claim(name, part),
            separation_claim(name, part),
            ensemble_claim(name, part),
        )
    ]


def comparisons(name: str, part: Numbers) -> list[Comparison]:
    """Published numbers of the same scores, in per cent."""
    return [
        Comparison(
            f"{name}, {score}: {words}, %",
            said,
            100 * part["scores"][score]["metrics"][key]["value"],
            note=NOTES[name],
        )
        for score, values in PUBLISHED.get(name, {}).items()
        for (key, words), said in zip(KEYS.items(), values, strict=True)
    ]


def overlap_claim(name: str, part: Numbers) -> Claim:
    """Do successes and errors overlap after calibration as before?"""
    sure = part["sure_errors"]
    return Claim(
        source=SOURCE,
        sentence=f"Calibration does not solve the overlap problem. ({name})",
        facts=[
            _of_networks("AUROC of errors after temperature", part, COOLED, below=SOLVED),
            _gain("gain in AP of errors by temperature", part, COOLED, below=SMALL),
        ],
        note=f"errors at a probability of 0.9 or more: {100 * sure['before']:.0f} % before, "
        f"{100 * sure['after']:.0f} % after",
    )


def ranking_claim(name: str, part: Numbers) -> Claim:
    """Is there a score of the same network that ranks errors better?"""
    return Claim(
        source=SOURCE,
        sentence=f"The maximum probability is a sub-optimal ranking confidence measure. ({name})",
        facts=[_gain(f"gain in AP of errors over it: {RECOMMENDED}", part, RECOMMENDED, above=0)],
        note=_won(part["scores"][RECOMMENDED]["gains"]),
    )


def separation_claim(name: str, part: Numbers) -> Claim:
    """Does the true class probability, which nobody knows, tell errors from successes?"""
    known, guessed = (part["scores"][one]["metrics"] for one in (ORACLE, BASELINE))
    return Claim(
        source=SOURCE,
        sentence=f"True class probability: assigns lower probability for errors. ({name})",
        facts=[
            _of_networks("AUROC of errors", part, ORACLE, above=SEPARATED),
            _gain("gain in AP of errors over the maximum probability", part, ORACLE, above=0),
        ],
        note=f"AP of errors {100 * known['ap_error']['value']:.1f} % against "
        f"{100 * guessed['ap_error']['value']:.1f} %; above 1/2 there is no error and below 1/10 "
        "no success, by definition; in between they overlap",
    )


def ensemble_claim(name: str, part: Numbers) -> Claim:
    """Does the ensemble rank errors better than MC dropout, network by network?"""
    first, second = (part["scores"][one]["ap_error"] for one in (ENSEMBLE, MC))
    gaps = [a["value"] - b["value"] for a, b in zip(first, second, strict=True)]
    return Claim(
        source="lecture, Bayesian Neural Networks & Ensembling",
        sentence="Ensembling empirically works well, better than MC dropout: for failure "
        f"prediction. ({name})",
        facts=[over_seeds("AP of errors, ensemble less MC dropout", gaps, above=0)],
        note=f"paired over {len(gaps)} networks: the errors of each, by both scores",
    )


def _of_networks(
    what: str, part: Numbers, score: str, *, above: float | None = None, below: float | None = None
) -> Fact:
    """The mean AUROC over networks, with Student's interval from the stored deviation."""
    found, count = part["scores"][score]["metrics"]["auroc"], part["seeds"]
    value, spread = found["value"], found["deviation"]
    half = float("nan")
    if count > 1 and spread is not None:
        half = float(stdtrit(count - 1, 0.975)) * spread / count**0.5
    ends = {"value": value, "low": value - half, "high": value + half}
    return between(what, ends, above=above, below=below, form=".4f", within=A_SHARE)


def _gain(
    what: str, part: Numbers, score: str, *, above: float | None = None, below: float | None = None
) -> Fact:
    """The mean gain over networks; its ends are as if the same test images misled all of them."""
    return between(what, mean_of(part["scores"][score]["gains"]), above=above, below=below)


def _won(gains: Sequence[Numbers]) -> str:
    sure = sum(one["low"] > 0 for one in gains)
    return f"above 0 for {sure} of {len(gains)} networks by paired resamples of the test images"
