"""Part `influence`: which training samples an answer rests on, checked by retraining."""

from dataclasses import replace

from nescio_papers.kit import Findings, Settings, joined, judged
from nescio_papers.robust_deep_learning import (
    influence_digits,
    influence_hinge,
    influence_labels,
    influence_linear,
)


def run(settings: Settings) -> Findings:
    """Linear regression, then MNIST: retraining, the hinge, wrong labels."""
    whole = joined(
        {
            "linear": influence_linear.findings(settings),
            "digits": influence_digits.findings(settings),
            "hinge": influence_hinge.findings(settings),
            "labels": influence_labels.findings(settings),
        }
    )
    return replace(whole, claims=judged(settings, whole.claims))
