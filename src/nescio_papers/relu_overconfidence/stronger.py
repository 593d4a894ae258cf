"""Attacks for networks that give the paper's nothing to follow, and how often that is so.

A network that was trained to be unsure on noise can have a dead layer there: its gradient is zero
and gradient steps stay where they are. It can also be flat but for narrow peaks, or unsure wherever
the label is lost although a sure wrong answer is near. Here several attacks are one judge.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio import attacks
from nescio.attacks import Judged, confidence
from nescio.core import as_batch
from nescio.evaluation.compare import AdversarialNoise, AdversarialSamples
from nescio.evaluation.compare.confidence_task import REJECTED
from nescio.models.model import Model
from nescio_papers.kit import InData
from nescio_papers.relu_overconfidence.budgets import Budget

LEAK = ", leaking gradients"  # ends the name of a row
STRONG, WRONG_CLASS = ", strong judge", ", confidence in a wrong class"  # so do these
ANY_CLASS = f"{STRONG}, any class"
SAME = 0.01  # of the range: an image that changes by less, on average, is what it was
SAMPLES = 200  # inputs whose gradient is looked at together


@dataclass(frozen=True, eq=False)
class Stronger:
    """A row whose inputs are made for each network by itself."""

    description: str
    make: Callable[[Model, InData], Tensor]
    judge: Callable[[Model, InData], Judged] | None = None  # all inputs, and which attack won


def strong_noise(attack: AdversarialNoise, budget: Budget, *, any_class: bool = False) -> Stronger:
    """The same noise under several attacks, of which the best counts for each image.

    attack: the paper's attack, which is one of them.
    budget: the sizes of the run.
    any_class: whether searches from test images may raise their own class too, which is the right
      answer where the image can still be read.
    """
    steps = budget.halving_steps
    towards = "towards any class" if any_class else "that are read right towards wrong classes"

    def judge(model: Model, in_dist: InData) -> Judged:
        return attacks.strong_noise(
            model,
            attack.ood.take(attack.count),
            starts=in_dist.test[0] if any_class else in_dist.test,
            radius=attack.radius,
            steps=attack.steps,
            step=attack.length,
            halving_steps=steps,
            seed=attack.seed,
        )

    text = (
        f"the best of several attacks, {steps} halved steps each, from test images {towards}, and "
        f"{attack.description}"
    )
    return Stronger(text, lambda model, in_dist: judge(model, in_dist).x, judge)


def strong_samples(attack: AdversarialSamples, steps: int) -> Stronger:
    """Test images under several attacks, of which the most confident of a wrong class counts.

    Those still classified correctly are dropped by the rule of the paper's row.

    attack: the paper's attack, which is one of them.
    steps: halved steps of each of the others.
    """

    def judge(model: Model, in_dist: InData) -> Judged:
        x, y = in_dist.test
        chosen = attack.chosen(len(x))
        return attacks.strong_samples(
            model,
            as_batch(x[chosen]),
            y[chosen],
            radius=attack.radius,
            steps=attack.steps,
            step=attack.length,
            halving_steps=steps,
            seed=attack.seed,
        )

    def make(model: Model, in_dist: InData) -> Tensor:
        moved, labels = judge(model, in_dist).x, in_dist.test[1]
        sure, named = model.outputs(moved)[0].softmax(1).max(1)
        tied = sure < REJECTED / in_dist.classes
        return moved[(named != labels[attack.chosen(len(labels))]) | tied]

    text = f"confidence in a wrong class, the best of several attacks, {steps} halved steps each"
    return Stronger(f"{text}, misclassified, and {attack.description}", make, judge)


def balls_with_data(noise: Tensor, images: Tensor, radius: float) -> float:
    """The share of noise images around which a ball holds one of the images of the data.

    It does where the ball changes the image by less than 1 % of the range, on average.

    noise: noise images, `(N, ...)`.
    images: images of the data.
    radius: radius of the balls, in the largest difference of a pixel.
    """
    same = SAME * (images.max() - images.min())
    held = torch.zeros(len(noise), dtype=torch.bool)
    for one in images:
        inside = one.clamp(noise - radius, noise + radius)
        held |= (inside - one).abs().flatten(1).mean(1) < same
    return held.double().mean().item()


def read_in_balls(model: Model, noise: Tensor, data: tuple[Tensor, Tensor], radius: float) -> float:
    """The share of images of the data that a network reads right when they are clipped to balls.

    noise: noise images, `(N, ...)`; the balls around them take turns.
    data: images of the data, and their labels.
    radius: radius of the balls, in the largest difference of a pixel.
    """
    x, y = as_batch(data[0]), data[1]
    center = noise[torch.arange(len(x)) % len(noise)]
    inside = x.clamp(center - radius, center + radius)
    with torch.no_grad():
        named = [model.outputs(piece)[0].argmax(-1) for piece in inside.split(SAMPLES)]
    return (torch.cat(named) == y).double().mean().item()


def without_gradient(model: Model, x: Tensor) -> float:
    """The share of inputs at which the confidence has no slope at all."""
    objective, dead = confidence(model), 0
    for piece in x.split(SAMPLES):
        leaf = as_batch(piece).requires_grad_()
        (slope,) = torch.autograd.grad(objective(leaf).sum(), leaf)
        dead += int((slope.flatten(1) == 0).all(1).sum())
    return dead / len(x)
