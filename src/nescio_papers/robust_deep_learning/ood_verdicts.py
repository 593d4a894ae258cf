"""Which claims on out-of-distribution detection hold, from the numbers of the part `ood`."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Fact
from nescio_papers.robust_deep_learning import exposure
from nescio_papers.robust_deep_learning.sets import KANA
from nescio_papers.robust_deep_learning.stored_facts import between, open_fact, over_seeds

SOURCE = "lecture, Out of Distribution Detection"
DISPERSION = "MC dropout: mutual_information"
TUNED, SHOWN = "odin, tuned on drawn shapes", f"odin, tuned on {KANA}"
Numbers = Mapping[str, Any]


def judge(numbers: Numbers) -> list[Claim]:
    """The lecture's three scores, and outlier exposure, from what was stored."""
    example = numbers["example"]
    claims = [] if "absent" in example else _of_scores(example)
    return claims + exposure.claims(numbers["exposure"])


def _of_scores(example: Numbers) -> list[Claim]:
    return [
        Claim(
            source=SOURCE,
            sentence="Baseline solution: assume that logits (before soft-max) are smaller for out- "
            "than for in-distribution samples.",
            facts=_logits(example),
            note=_probabilities(example),
        ),
        Claim(
            source=SOURCE,
            sentence="In classification: estimate dispersion (e.g. mutual info) for Bayesian "
            "models (e.g. MC dropout).",
            facts=_better(example, DISPERSION),
            note=_compared(example),
        ),
        Claim(
            source=SOURCE,
            sentence="ODIN: modify inputs to maximize differences of in and out samples.",
            facts=[*_better(example, TUNED), *_better(example, SHOWN)],
            note="tuned on drawn shapes, or by the lecture's rule on OOD samples of the set that "
            f"is tested; {_compared(example)}",
        ),
    ]


def _logits(example: Numbers) -> list[Fact]:
    """Are the largest logits of OOD inputs smaller, more often than not?"""
    rows = example.get("predictors", {}).get("max_logit", {}).get("rows", {})
    tested = example.get("tested", [])
    facts = [
        between(f"{row}: AUROC of the maximum logit", rows[row]["auroc"], above=0.5, form=".3f")
        for row in tested
    ]
    return facts or [open_fact("AUROC of the maximum logit", above=0.5)]


def _probabilities(example: Numbers) -> str:
    """The published baseline, which is another score than the logits."""
    rows = example.get("predictors", {}).get("msp", {}).get("rows", {})
    said = [f"{row} {rows[row]['auroc']['value']:.3f}" for row in example.get("tested", []) if rows]
    note = "the baseline of Hendrycks and Gimpel is the maximum probability, not a logit"
    return f"{note} (erratum 44)" + (f"; its AUROC: {', '.join(said)}" if said else "")


def _better(example: Numbers, name: str) -> list[Fact]:
    """AUROC less that of the maximum probability on each OOD set, paired over trainings."""
    what = f"AUROC of {name} less that of the maximum probability"
    gains = example.get("gains", {}).get(name, {})
    facts = [
        over_seeds(f"{row}: {what}", [one["value"] for one in values], above=0, form="+.4f")
        for row, values in gains.items()
    ]
    return facts or [open_fact(what, above=0)]


def _compared(example: Numbers) -> str:
    gains = example.get("gains", {}).get(TUNED, {})
    if not gains:
        return "the stored numbers have no paired differences"
    count = len(next(iter(gains.values())))
    return f"paired differences on the same images, interval over {count} trainings"
