"""What is said of uncertainty in segmentation, judged by the numbers of the test frames."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Fact
from nescio_papers.robust_deep_learning.segmentation_measures import (
    ALEATORIC,
    EPISTEMIC,
    NAMES,
)
from nescio_papers.robust_deep_learning.segmentation_network import RARE
from nescio_papers.robust_deep_learning.stored_facts import ONCE, RECALLED, between

OWN = "here"
FIGURES = "here, our own goal"
SAMPLED, PLAIN = "MC dropout", "dropout off"
LEAST_IOU, LEAST_AUROC = 0.45, 0.85
LEARNED = 0.3  # mean IoU
STEADY = 0.05  # nats: what counts as no rise
SHOWN = 0.0005  # of mean IoU: the smallest gain that the published table would show


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """Our own goals, what the lecture's pictures suggest, its source; intervals draw frames."""
    if "absent" in numbers:
        return []
    return [_overlap(numbers), _ranked(numbers), *_of_the_pictures(numbers), _gain(numbers)]


def _iou(numbers: Mapping[str, Any], least: float) -> Fact:
    return between("mean IoU", numbers["quality"][SAMPLED]["mean_iou"], above=least)


def _overlap(numbers: Mapping[str, Any]) -> Claim:
    return Claim(
        source=FIGURES,
        sentence=f"CamVid, 11 classes, 120 x 90: a mean IoU of at least {LEAST_IOU}.",
        facts=[_iou(numbers, LEAST_IOU)],
        note=f"{numbers['weights']:,} weights; {ONCE}",
    )


def _ranked(numbers: Mapping[str, Any]) -> Claim:
    return Claim(
        source=FIGURES,
        sentence=f"Each uncertainty ranks wrong pixels with an AUROC of at least {LEAST_AUROC}.",
        facts=[
            between(NAMES[name], found["auroc"], above=LEAST_AUROC)
            for name, found in numbers["ranking_of_errors"].items()
        ],
        needs=[_iou(numbers, LEARNED)],
        note=ONCE,
    )


def _of_the_pictures(numbers: Mapping[str, Any]) -> list[Claim]:
    turned = numbers["upside_down"]
    return [
        Claim(
            source=OWN,
            sentence="Epistemic uncertainty is higher for classes that are rare in training.",
            facts=[
                between(
                    "mutual information of rare classes less that of the others, by frame, nats,",
                    numbers["rare_less_frequent"][EPISTEMIC],
                    above=0,
                )
            ],
            needs=[_iou(numbers, LEARNED)],
            note=f"rare, below {100 * RARE:g} % of the training pixels: "
            + ", ".join(numbers["rare_classes"])
            + f"; {ONCE}",
        ),
        Claim(
            source=OWN,
            sentence="Aleatoric uncertainty is high at the edges of objects.",
            facts=[
                between(
                    "expected entropy beside another class less elsewhere, by frame, nats,",
                    numbers["edges_less_rest"][ALEATORIC],
                    above=0,
                )
            ],
            needs=[_iou(numbers, LEARNED)],
            note=ONCE,
        ),
        Claim(
            source=OWN,
            sentence="Epistemic uncertainty rises on inputs unlike the training data, aleatoric "
            "uncertainty does not.",
            facts=[
                between(
                    "rise of the mutual information on frames upside down, nats,",
                    turned[EPISTEMIC]["difference"],
                    above=0,
                ),
                between(
                    "rise of the expected entropy, nats,",
                    turned[ALEATORIC]["difference"],
                    below=STEADY,
                ),
            ],
            needs=[_iou(numbers, LEARNED)],
            note=f"times {turned[EPISTEMIC]['ratio']:.2f} and {turned[ALEATORIC]['ratio']:.2f}; "
            f"{ONCE}",
        ),
    ]


def _gain(numbers: Mapping[str, Any]) -> Claim:
    return Claim(
        source="Kendall and Gal (2017), table 1",
        sentence="Modeling epistemic uncertainty improves segmentation.",
        facts=[
            between(
                f"mean IoU of {SAMPLED} less that with {PLAIN}, the same network and frames,",
                numbers["gain_in_mean_iou"],
                above=SHOWN,
                form="+.4f",
            )
        ],
        needs=[_iou(numbers, LEARNED)],
        note=f"the table, {RECALLED}, has one decimal of a per cent: a gain below "
        f"{100 * SHOWN:g} points would not be seen; {ONCE}",
    )
