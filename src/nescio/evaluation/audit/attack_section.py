"""The surest inputs near noise, a predictor at a time: gradient ascent on its confidence."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.attacks import Ascent, confidence, leaking, pgd
from nescio.core import NescioError, derive
from nescio.data.ranges import Units, near, noise
from nescio.evaluation.answers import ADVERSARIAL
from nescio.models import Predictor

ATTACKED = 200  # noise inputs that are attacked


@dataclass(frozen=True, eq=False)
class Attack:
    """Where the attack starts and how it moves, in units of the range of the data."""

    name: str
    start: Tensor
    units: Units
    options: dict[str, Any]

    def surest(self, predictor: Predictor) -> tuple[Tensor, float]:
        """The surest inputs found near the noise, and the share on which the attack was blind.

        Where the network gives no gradient, the attack tries again with one that leaks through
        dead units.
        """
        sure = confidence(predictor)

        def objective(shares: Tensor) -> Tensor:
            return sure(self.units.inputs(shares))

        found = pgd(objective, self.start, **self.options)
        x, blind = found.x, found.blind
        if blind.any():
            again = pgd(leaking(objective), self.start, **self.options)
            better = (again.value > found.value).view(-1, *(1 for _ in x.shape[1:]))
            x, blind = torch.where(better, again.x, x), blind & again.blind
        return self.units.inputs(x), blind.double().mean().item()


def check_attack(steps: int, radius: float | None) -> None:
    """Refuse options of the attack that make no sense, before any work is done."""
    if radius is not None and not radius > 0:
        raise NescioError(f"attack_radius must be positive, got {radius}; 0 steps leave it out")
    Ascent(radius=radius, steps=steps)


def attack_on(
    known: Tensor, units: Units, steps: int, radius: float | None, seed: int
) -> Attack | None:
    """The attack in the range of the known data; none without steps."""
    check_attack(steps, radius)
    if not steps:
        return None
    own = derive(seed, "audit")  # other noise than a recipe trains on
    reach = near(radius, known)
    options = {"radius": reach, "steps": steps, "seed": own}
    name = f"{ADVERSARIAL} (radius {reach:g}, {steps} step{'s' if steps > 1 else ''})"
    return Attack(name, noise(known, seed=own).take(ATTACKED), units, options)


def attacked(
    predictor: Predictor, attack: Attack | None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The attacked noise by name, and what became of the attack."""
    if attack is None:
        return {}, {}
    try:
        x, blind = attack.surest(predictor)
    except NescioError as error:
        return {}, {"skipped": str(error)}
    return {attack.name: x}, {"blind": blind}
