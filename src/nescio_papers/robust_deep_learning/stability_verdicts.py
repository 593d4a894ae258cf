"""What is said of stability under deformations, judged by the numbers of the part."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nescio_papers.kit import Claim, Fact, exactly
from nescio_papers.robust_deep_learning.stability_lipschitz import CHECK
from nescio_papers.robust_deep_learning.stability_networks import FIXED, PLAIN
from nescio_papers.robust_deep_learning.stored_facts import ONCE, between, largest

TRAINED, COEFFICIENTS, INPUTS = "convolutions", "scattering coefficients", "inputs"
IMAGES, FEATURES, LOGITS = "than the images", "than trained features", "logits"
PAIRS = {  # what is compared under every deformation
    IMAGES: (COEFFICIENTS, INPUTS),
    FEATURES: (COEFFICIENTS, TRAINED),
    LOGITS: (FIXED, PLAIN),
}
ROUNDING = 1e-12
LEARNED = 0.95  # accuracy
COUNTED = "proved bounds, counted over all digits"


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """All claims on deformed digits."""
    curves = [*numbers["outputs"].values(), *numbers["features"].values()]
    paired, needs = numbers.get("paired", {}), [learned(numbers["accuracy"])]
    found = [
        replace(claim, needs=needs)
        for kind in numbers["outputs"]
        for claim in (_coefficients(kind, paired.get(kind)), _network(kind, paired.get(kind)))
    ]
    return [*found, bounded(curves, numbers["translations"])]


def _coefficients(kind: str, paired: Mapping[str, Any] | None) -> Claim:
    facts = []
    for name, than in ((IMAGES, "the images"), (FEATURES, "the convolutions of a trained network")):
        own = (paired or {}).get(name, {"mean": None, "by_size": []})
        facts += [
            between(f"change of the coefficients less that of {than}, mean over sizes,",
                    own["mean"], below=0, form="+.3f"),
            between("at the worst size", largest(own["by_size"]), below=0, form="+.3f"),
        ]  # fmt: skip
    return Claim(
        source="here",
        sentence="Scattering operators are stable to deformations: their coefficients change less "
        f"than the images, and less than the features of a trained network. ({kind})",
        facts=facts,
        note=f"{ONCE}, paired; 1 is the distance of two digits",
    )


def _network(kind: str, paired: Mapping[str, Any] | None) -> Claim:
    none = {"mean": None}
    own, labels = ((paired or {}).get(name, none) for name in (LOGITS, f"{LOGITS}, labels"))
    return Claim(
        source="here",
        sentence="A linear layer on scattering coefficients has more stable logits and labels than "
        f"a trained network. ({kind})",
        facts=[
            between("change of its logits less that of the trained network, mean over sizes,",
                    own["mean"], below=0, form="+.3f"),
            between("share of labels that change, less that of the trained network,",
                    labels["mean"], below=0, form="+.1%"),
        ],
        note=f"{ONCE}, paired",
    )  # fmt: skip


def bounded(curves: Any, moved: Mapping[str, Mapping[str, list[float]]]) -> Claim:
    """Are all changes within their bounds?"""
    pairs = [
        (change, bound)
        for curve in curves
        for one in curve["subjects"].values()
        for change, bound in zip(one["change"], one.get("bound", []), strict=False)
        if change is not None and bound is not None
    ]
    outside = sum(change > bound + ROUNDING for change, bound in pairs)
    beyond = max(1 - min(one["within"]) for one in moved.values())
    return Claim(
        source="here",
        sentence="Stability bounds hold: for every network and deformation, and for translations "
        "of scattering coefficients.",
        facts=[
            exactly(f"mean changes, of {len(pairs)}, that exceed their bounds", outside,
                    why=COUNTED, below=0.5),
            exactly("largest share of moved digits beyond a bound of scattering", beyond,
                    why=COUNTED, below=ROUNDING, form=".1%"),
        ],
        note=CHECK,
    )  # fmt: skip


def learned(accuracy: Mapping[str, float]) -> Fact:
    """Whether both networks read digits."""
    return exactly(
        "smaller accuracy of the two networks",
        min(accuracy[name] for name in (FIXED, PLAIN)),
        why="the networks of this run, counted on all their test digits",
        above=LEARNED,
        form=".1%",
    )
