"""Half-moons with six labels, three along each arm: which methods follow the arms?"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nescio import nets
from nescio.core import RAMP, generator
from nescio.data import half_moons
from nescio.data.augmentation import noise
from nescio_papers.kit import Settings, full_and_quick, size
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

DRAWS, THIRDS, SPREAD = 10, 3, 0.1
METHODS = {
    SUPERVISED: Method(),
    PI: Method(loss=PI, options={"weight": 20.0}),
    TEMPORAL: Method(loss=TEMPORAL, options={"weight": 20.0}),
    TEACHER: Method(loss=TEACHER, options={"weight": 20.0, "decay": 0.9, "early_decay": 0.9}),
    TRANSFORMATION: Method(loss=TRANSFORMATION, options={"weight": 2.0, "ramp": RAMP}),
    VIRTUAL: Method(loss=VIRTUAL, options={"radius": 0.1}, training={"augment": ()}),
}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    samples: int = size(1000, quick=100)  # without labels
    test: int = size(2000, quick=200)
    updates: int = size(2000, quick=10)


FULL, QUICK = full_and_quick(Budget)


def task(settings: Settings) -> Task:
    """Ten draws of six labels from one data set."""
    sizes = QUICK if settings.quick else FULL
    moons = half_moons(
        seed=settings.seed, train=sizes.samples, validation=0, test=sizes.test, noise=SPREAD
    )
    assert moons.test is not None
    x, y = moons.train
    parts = THIRDS * y + third(x, y)
    rows = torch.cat(
        [stratified(parts, 1, generator(settings.seed, "moons", draw)) for draw in range(DRAWS)]
    )
    return Task(
        name="moons",
        net=partial(nets.mlp, 2, 2, widths=(64, 64)),
        labeled=(x[rows], y[rows]),
        draws=DRAWS,
        unlabeled=x,
        unlabeled_size=min(200, len(x)),
        test=moons.test,
        epochs=sizes.updates,
        training={
            "batch_size": None,
            "learning_rate": 5e-3,
            "schedule": "cosine",
            "augment": noise(0.12),
        },
    )


def third(x: Tensor, y: Tensor) -> Tensor:
    """In which third of its arm a sample lies: 0, 1 or 2, by the angle around its center."""
    first = torch.atan2(x[:, 1], x[:, 0])
    second = torch.atan2(0.5 - x[:, 1], 1 - x[:, 0])
    angle = torch.where(y == 0, first, second)
    angle = torch.where(angle < -math.pi / 2, angle + 2 * math.pi, angle)  # past the far end
    return (angle / (math.pi / THIRDS)).floor().clamp(0, THIRDS - 1).long()


def outcomes(settings: Settings) -> dict[str, Outcome]:
    """All methods on the same ten draws."""
    own = task(settings)
    return {name: outcome(settings, own, name, method) for name, method in METHODS.items()}
