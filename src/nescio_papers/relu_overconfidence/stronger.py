"""Attacks for networks that give the paper's nothing to follow, and how often that is so.

A network that was trained to be unsure on noise can have a dead layer there: its gradient is zero
and gradient steps stay where they are. Here gradients leak through dead units, test images are
moved towards a wrong class instead of away from the label, and they are not shaken at the start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.attacks import confidence, leaking, pgd, wrong_confidence
from nescio.core import as_batch
from nescio.evaluation.compare import AdversarialNoise, AdversarialSamples
from nescio.models.model import Model
from nescio_papers.kit import InData

LEAK = ", leaking gradients"  # ends the name of a row
STEP = 0.02  # of the attack on noise, at its start; it ends at zero
SAMPLES = 200  # inputs whose gradient is looked at together


@dataclass(frozen=True, eq=False)
class Stronger:
    """A row whose inputs are made for each network by itself."""

    description: str
    make: Callable[[Model, InData], Tensor]


def stronger_noise(attack: AdversarialNoise) -> Stronger:
    """The same noise under an attack whose gradients leak."""

    def make(model: Model, in_dist: InData) -> Tensor:
        del in_dist
        options: dict[str, Any] = {
            "steps": attack.steps,
            "step": STEP,
            "schedule": "cosine",
            "seed": attack.seed,
        }
        noise = attack.ood.take(attack.count)
        return pgd(leaking(confidence(model)), noise, radius=attack.radius, **options).x

    return Stronger(f"{attack.description}, step {STEP} falling to 0, leaking gradients", make)


def stronger_samples(attack: AdversarialSamples, steps: int) -> Stronger:
    """Test images moved to a wrong class; those that are still classified correctly are dropped."""

    def make(model: Model, in_dist: InData) -> Tensor:
        x, y = in_dist.test
        chosen = attack.chosen(len(x))
        images, labels = as_batch(x[chosen]), y[chosen]
        objective = leaking(wrong_confidence(model))
        options: dict[str, Any] = {"radius": attack.radius, "steps": steps, "start": "input"}
        moved = pgd(objective, images, labels, schedule="cosine", **options).x
        return moved[model.outputs(moved)[0].argmax(1) != labels]

    text = f"adversarial samples by confidence in a wrong class (radius={attack.radius}, {steps=})"
    return Stronger(f"{text}, leaking gradients, misclassified", make)


def without_gradient(model: Model, x: Tensor) -> float:
    """The share of inputs at which the confidence has no slope at all."""
    objective, dead = confidence(model), 0
    for piece in x.split(SAMPLES):
        leaf = as_batch(piece).requires_grad_()
        (slope,) = torch.autograd.grad(objective(leaf).sum(), leaf)
        dead += int((slope.flatten(1) == 0).all(1).sum())
    return dead / len(x)
