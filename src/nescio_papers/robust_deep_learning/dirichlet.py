"""Part `dirichlet`: distributions over distributions, in pictures, formulas and networks."""

from dataclasses import replace

from nescio_papers.kit import Findings, Settings, joined, judged
from nescio_papers.robust_deep_learning import (
    dice,
    dirichlet_digits,
    dirichlet_formulas,
    dirichlet_toy,
    simplexes,
)


def run(settings: Settings) -> Findings:
    """The pictures, the dice, the formulas; then networks, in the plane and on MNIST."""
    whole = joined(
        {
            "simplex": simplexes.findings(settings),
            "dice": dice.findings(settings),
            "formulas": dirichlet_formulas.findings(settings),
            "situations": dirichlet_toy.findings(settings),
            "mnist": dirichlet_digits.findings(settings),
        }
    )
    return replace(whole, claims=judged(settings, whole.claims))
