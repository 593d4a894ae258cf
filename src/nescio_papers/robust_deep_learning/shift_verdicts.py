"""What is said of ensembles as digits move away, judged by the numbers of the part."""

from collections.abc import Mapping, Sequence
from typing import Any

from nescio_papers.kit import Claim, Comparison, Fact, exactly
from nescio_papers.robust_deep_learning.stored_facts import ONCE, between, number

SOURCE = "Lakshminarayanan et al., 2017, section 3.5"
SINGLE, MC = "M = 1", "MC dropout"
MEMBERS = (1, 5, 10)
LEARNED = 0.98  # accuracy
FIGURE_6 = 0.9  # the ensemble's accuracy above a confidence of 0.9, as drawn


def ensembles() -> list[str]:
    """The names of the ensembles, from the smallest."""
    return [f"M = {m}" for m in MEMBERS]


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """All claims, from the numbers of the part."""
    if "absent" in numbers:
        return []
    learned = _learned(numbers["curves"])
    there = {row: one for row, one in numbers.get("ood", {}).items() if "absent" not in one}
    return [
        ensemble_claim(numbers.get("paired", {}), learned),
        *(claim for row, one in there.items() for claim in ood_claims(row, one, learned)),
    ]


def _learned(curves: Mapping[str, Any]) -> list[Fact]:
    """Whether the network reads digits; nothing where older numbers do not say."""
    first: Mapping[str, Any] = next(iter(curves.values()), {})
    found = first.get("subjects", {}).get(SINGLE, {}).get("accuracy", [])
    return [
        exactly(
            "accuracy of one network on the digits as they are",
            accuracy,
            why="the network of this run, counted on all its test digits",
            above=LEARNED,
            form=".2%",
        )
        for accuracy in found[:1]
    ]


def ensemble_claim(paired: Mapping[str, Any], learned: Sequence[Fact]) -> Claim:
    """Are ensembles better than MC dropout, on test digits as they are and under every shift?"""
    wins = ", ".join(f"{name} {count}" for name, count in paired.get("better", {}).items())
    sides: dict[str, dict[str, Any]] = {
        "accuracy": {"above": 0, "form": "+.2%"},
        "nll": {"below": 0, "form": "+.3f"},
        "ece": {"below": 0, "form": "+.4f"},
    }
    words = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}
    return Claim(
        source="lecture, Bayesian Neural Networks & Ensembling",
        sentence="Ensembling empirically works well, better than MC dropout: as digits move away.",
        facts=[
            between(
                f"{words[name]} of {MEMBERS[-1]} networks less that of MC dropout, mean over "
                "shifts and strengths,",
                paired.get(name),
                **side,
            )
            for name, side in sides.items()
        ],
        needs=learned,
        note=f"{ONCE}, paired by digit; better at, of {paired.get('conditions', 0)} shifts "
        f"and strengths: {wins}",
    )


def ood_claims(row: str, found: Mapping[str, Any], learned: Sequence[Fact]) -> list[Claim]:
    """What is said of the entropy and of confident answers on unknown classes."""
    medians, at_nine = found["median_entropy"], found["accuracy_above_0.9"]
    largest = ensembles()[-1]
    return [
        Claim(
            source=SOURCE,
            sentence=f"The entropy on inputs from unknown classes grows with the ensemble. ({row})",
            facts=[
                between(f"mean entropy of {what}, nats,", gap, above=0, form="+.4f")
                for what, gap in found.get("entropy_growth", {"the ensembles": None}).items()
            ],
            needs=learned,
            note=f"{ONCE}, paired; medians "
            + ", ".join(f"{number(medians[name]):.3f} for {name}" for name in ensembles()),
        ),
        Claim(
            source=SOURCE,
            sentence="Ensembles are more accurate than MC dropout on inputs that they are "
            f"confident about, unknown classes counted as wrong. ({row})",
            facts=[
                between(
                    f"accuracy above a confidence of 0.9, {largest} less MC dropout,",
                    found.get("confident_gain"),
                    above=0,
                    form="+.2%",
                )
            ],
            needs=learned,
            note=f"{number(at_nine[largest]):.1%} and {number(at_nine[MC]):.1%}; inputs are drawn "
            f"again for both alike; {ONCE}",
        ),
    ]


def published(row: str, at_nine: Mapping[str, float]) -> list[Comparison]:
    """The paper's figure 6 beside ours."""
    return [
        Comparison(
            f"accuracy above a confidence of 0.9, MNIST and {row}: ensemble",
            FIGURE_6,
            at_nine[ensembles()[-1]],
            note="published: read off figure 6, NotMNIST, with adversarial training; MC dropout "
            "much lower there",
        )
    ]
