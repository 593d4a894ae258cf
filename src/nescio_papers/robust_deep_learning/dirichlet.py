"""Part `dirichlet`: distributions over distributions, in pictures, formulas and networks."""

from dataclasses import replace

from nescio_papers.kit import Findings, Settings, joined, judged
from nescio_papers.robust_deep_learning import dice, dirichlet_formulas, simplexes


def run(settings: Settings) -> Findings:
    """The pictures, the dice, the formulas."""
    whole = joined(
        {
            "simplex": simplexes.findings(settings),
            "dice": dice.findings(settings),
            "formulas": dirichlet_formulas.findings(settings),
        }
    )
    return replace(whole, claims=judged(settings, whole.claims))
