"""Part `dirichlet`: distributions over distributions, in pictures, formulas and networks."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Findings, Settings, joined
from nescio_papers.robust_deep_learning import (
    dice,
    dirichlet_digits,
    dirichlet_formulas,
    dirichlet_toy,
    dirichlet_verdicts,
    simplexes,
)


def run(settings: Settings) -> Findings:
    """The pictures, the dice, the formulas; then networks, in the plane and on MNIST."""
    return joined(
        {
            "simplex": simplexes.findings(settings),
            "dice": dice.findings(settings),
            "formulas": dirichlet_formulas.findings(settings),
            "situations": dirichlet_toy.findings(settings),
            "mnist": dirichlet_digits.findings(settings),
        }
    )


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims of all pieces, from their numbers."""
    return [
        *simplexes.claims(numbers["simplex"]),
        *dice.claims(numbers["dice"]),
        *dirichlet_formulas.claims(numbers["formulas"]),
        *dirichlet_toy.claims(numbers["situations"]),
        *dirichlet_verdicts.claims(numbers["mnist"]),
    ]
