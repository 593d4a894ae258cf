"""How much the parts with images do: how many images, epochs and attack steps, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass

from nescio_papers.kit import Settings, full_and_quick, photographs, size
from nescio_papers.relu_overconfidence.methods import ACET_40, LABELS, LENET, LENET_ACET

Sizes = Mapping[str, int]  # by block


@dataclass(frozen=True)
class Stated:
    """The smaller budget of a network that costs more than the others of its block."""

    images: int
    epochs: int


def _by_block(mnist: int, color: int) -> Sizes:
    return {"MNIST": mnist, "SVHN": color, "CIFAR-10": color, "CIFAR-100": color}


def _stated(lenet: Stated, forty: Stated, labels: Stated) -> Mapping[str, Stated]:
    return {LENET: lenet, LENET_ACET: lenet, ACET_40: forty, LABELS: labels}


@dataclass(frozen=True)
class Budget:
    """The sizes of a run; the paper's where it can be."""

    train: Sizes = size(_by_block(60_000, 20_000), quick=_by_block(500, 100))  # images at most
    epochs: Sizes = size(_by_block(8, photographs.EPOCHS), quick=_by_block(1, 1))
    stated: Mapping[str, Stated] = size(
        _stated(Stated(20_000, 4), Stated(10_000, 5), Stated(20_000, 6)),
        quick=_stated(Stated(100, 1), Stated(100, 1), Stated(100, 1)),
    )  # by column
    seeds: int = size(5, quick=1)  # trainings of a column at most
    batch: int = size(128, quick=32)
    test: int = size(10_000, quick=100)  # in-distribution images, and of each OOD set, at most
    attacked: Sizes = size(_by_block(300, 150), quick=_by_block(5, 3))  # under each attack
    noise_steps: int = size(200, quick=5)  # of the attack on noise
    halving_steps: int = size(20, quick=3)  # of each other attack of the strong judge
    sample_steps: int = size(80, quick=5)  # of the attack on test images
    resamples: int = size(1000, quick=200)  # for intervals
    rays: Sizes = size(_by_block(500, 0), quick=_by_block(50, 0))  # of table 2, exact factors
    searched: Sizes = size(_by_block(10_000, 500), quick=_by_block(50, 4))  # by a grid instead
    examples: int = size(8, quick=6)  # noise images in a figure
    example_steps: int = size(40, quick=20)  # of the attack on them
    cost_seeds: int = size(6, quick=2)
    cost_attacked: int = size(400, quick=10)  # images under the judge of that comparison
    timed: int = size(10_000, quick=100)  # images of a timed epoch
    repeats: int = size(7, quick=2)  # of a timing


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL
