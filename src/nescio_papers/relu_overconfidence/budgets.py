"""How much the parts with images do: how many images, epochs and attack steps, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass

from nescio_papers.kit.experiment import Settings


@dataclass(frozen=True)
class Budget:
    """The sizes of a run; the paper's where it can be."""

    train: Mapping[str, int]  # training images at most, by block
    epochs: Mapping[str, int]
    batch: int
    test: int  # images of the in-distribution data, and of each OOD set, at most
    attacked: Mapping[str, int]  # images under each attack, by block
    noise_steps: int  # of the attack on noise
    restarts: int  # of the same
    sample_steps: int  # of the attack on test images
    resamples: int  # for intervals
    rays: Mapping[str, int]  # uniform inputs of table 2 with exact factors, by block
    searched: Mapping[str, int]  # the same with factors searched on a grid
    examples: int  # noise images in a figure
    example_steps: int  # of the attack on them
    cost_train: int  # images of the comparison of ACET's attacks
    cost_epochs: int
    cost_seeds: int
    cost_attacked: int  # images under the judge of that comparison
    timed: int  # images of a timed epoch
    repeats: int  # of a timing


FULL = Budget(
    train={"MNIST": 60_000, "SVHN": 20_000, "CIFAR-10": 20_000, "CIFAR-100": 20_000},
    epochs={"MNIST": 15, "SVHN": 10, "CIFAR-10": 60, "CIFAR-100": 60},
    batch=128,
    test=10_000,
    attacked={"MNIST": 1000, "SVHN": 500, "CIFAR-10": 500, "CIFAR-100": 500},
    noise_steps=200,
    restarts=3,
    sample_steps=80,
    resamples=1000,
    rays={"MNIST": 10_000, "SVHN": 300, "CIFAR-10": 300, "CIFAR-100": 300},
    searched={"MNIST": 10_000, "SVHN": 10_000, "CIFAR-10": 10_000, "CIFAR-100": 10_000},
    examples=8,
    example_steps=40,
    cost_train=10_000,
    cost_epochs=5,
    cost_seeds=3,
    cost_attacked=400,
    timed=10_000,
    repeats=3,
)
QUICK = Budget(
    train={"MNIST": 4000, "SVHN": 1000, "CIFAR-10": 1000, "CIFAR-100": 1000},
    epochs={"MNIST": 2, "SVHN": 1, "CIFAR-10": 1, "CIFAR-100": 1},
    batch=32,
    test=500,
    attacked={"MNIST": 60, "SVHN": 30, "CIFAR-10": 30, "CIFAR-100": 30},
    noise_steps=20,
    restarts=1,
    sample_steps=20,
    resamples=200,
    rays={"MNIST": 50, "SVHN": 3, "CIFAR-10": 3, "CIFAR-100": 3},
    searched={"MNIST": 50, "SVHN": 20, "CIFAR-10": 20, "CIFAR-100": 20},
    examples=6,
    example_steps=20,
    cost_train=2000,
    cost_epochs=1,
    cost_seeds=2,
    cost_attacked=60,
    timed=1000,
    repeats=2,
)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL
