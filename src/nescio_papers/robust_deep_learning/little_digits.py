"""MNIST with 100 labels, ten of each digit, and 60,000 images without."""

from dataclasses import dataclass

import torch
from torch import nn

from nescio.core import RAMP, generator
from nescio.data.augmentation import affine
from nescio_papers.kit import InData, Settings, full_and_quick, size
from nescio_papers.robust_deep_learning.little_methods import (
    PI,
    SUPERVISED,
    TEACHER,
    TEMPORAL,
    TRANSFORMATION,
    VIRTUAL,
    Method,
    Outcome,
    Task,
    outcome,
    stratified,
)

PER_CLASS, BATCH = 10, 25


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    draws: int = size(5, quick=2)
    updates: int = size(1600, quick=16)
    unlabeled: int | None = size(None, quick=256)  # images, None: all
    at_once: int = size(128, quick=16)  # of them
    test: int | None = size(None, quick=200)
    width: int = size(16, quick=2)


FULL, QUICK = full_and_quick(Budget)
METHODS = {
    SUPERVISED: Method(),
    PI: Method(loss=PI, options={"weight": 100.0}, length=3.0),
    TEMPORAL: Method(loss=TEMPORAL, options={"weight": 100.0}, length=0.5),
    TEACHER: Method(
        loss=TEACHER, options={"weight": 200.0}, training={"average": 0.97}, length=0.5
    ),
    TRANSFORMATION: Method(
        loss=TRANSFORMATION,
        options={"weight": 3.0, "passes": 3, "exclusivity": 0.5, "ramp": RAMP},
        costs=2,
        length=0.5,
    ),
    VIRTUAL: Method(loss=VIRTUAL, options={"radius": 1.5, "entropy": 0.3}, costs=2, length=0.5),
}


def network(width: int) -> nn.Module:
    """Three strided convolutions with BatchNorm, dropout, and a linear layer."""
    layers: list[nn.Module] = []
    sizes = [(1, width, 5), (width, 2 * width, 3), (2 * width, 4 * width, 3)]
    for before, after, across in sizes:
        layers += [
            nn.Conv2d(before, after, across, 2, across // 2),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.5), nn.Linear(64 * width, 10))


def task(settings: Settings, digits: InData) -> Task:
    """Draws of ten labels of each digit; all training images come without labels too."""
    sizes = QUICK if settings.quick else FULL
    x, y = digits.train
    rows = torch.cat(
        [
            stratified(y, PER_CLASS, generator(settings.seed, "digits", draw))
            for draw in range(sizes.draws)
        ]
    )
    each = len(rows) // sizes.draws
    return Task(
        name="mnist",
        net=lambda: network(sizes.width),
        labeled=(x[rows], y[rows]),
        draws=sizes.draws,
        unlabeled=x[: sizes.unlabeled],
        unlabeled_size=sizes.at_once,
        test=(digits.test[0][: sizes.test], digits.test[1][: sizes.test]),
        epochs=-(-sizes.updates // -(-each // BATCH)),
        training={
            "batch_size": BATCH,
            "learning_rate": 4e-3,
            "schedule": "cosine",
            "average": 0.99,
            "augment": affine(),
        },
    )


def outcomes(settings: Settings, digits: InData) -> dict[str, Outcome]:
    """All methods on the same draws."""
    own = task(settings, digits)
    return {name: outcome(settings, own, name, method) for name, method in METHODS.items()}
