"""Part `influence`: which training samples an answer rests on, checked by retraining."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Findings, Settings, joined
from nescio_papers.robust_deep_learning import (
    influence_digits,
    influence_hinge,
    influence_labels,
    influence_linear,
)


def run(settings: Settings) -> Findings:
    """Linear regression, then MNIST: retraining, the hinge, wrong labels."""
    return joined(
        {
            "linear": influence_linear.findings(settings),
            "digits": influence_digits.findings(settings),
            "hinge": influence_hinge.findings(settings),
            "labels": influence_labels.findings(settings),
        }
    )


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims by stored numbers."""
    judges = {
        "linear": influence_linear.judge,
        "digits": influence_digits.judge,
        "hinge": influence_hinge.judge,
        "labels": influence_labels.judge,
    }
    return [
        claim
        for name, one in judges.items()
        if "absent" not in numbers[name]
        for claim in one(numbers[name])
    ]
