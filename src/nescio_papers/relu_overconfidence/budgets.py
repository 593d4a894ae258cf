"""How much the parts with images do: how many images, epochs and attack steps, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass

from nescio_papers.kit import Settings, full_and_quick, size

Sizes = Mapping[str, int]  # by block


def _by_block(mnist: int, color: int, *, svhn: int | None = None) -> Sizes:
    return {"MNIST": mnist, "SVHN": svhn or color, "CIFAR-10": color, "CIFAR-100": color}


@dataclass(frozen=True)
class Budget:
    """The sizes of a run; the paper's where it can be."""

    train: Sizes = size(_by_block(60_000, 20_000), quick=_by_block(4000, 1000))  # images at most
    epochs: Sizes = size(_by_block(15, 60, svhn=10), quick=_by_block(2, 1))
    batch: int = size(128, quick=32)
    test: int = size(10_000, quick=500)  # in-distribution images, and of each OOD set, at most
    attacked: Sizes = size(_by_block(1000, 500), quick=_by_block(60, 30))  # under each attack
    noise_steps: int = size(200, quick=20)  # of the attack on noise
    restarts: int = size(3, quick=1)  # of the same
    halving_steps: int = size(20, quick=5)  # of each other attack of the strong judge
    sample_steps: int = size(80, quick=20)  # of the attack on test images
    resamples: int = size(1000, quick=200)  # for intervals
    rays: Sizes = size(_by_block(10_000, 300), quick=_by_block(50, 3))  # of table 2, exact factors
    searched: Sizes = size(_by_block(10_000, 10_000), quick=_by_block(50, 20))  # by a grid instead
    examples: int = size(8, quick=6)  # noise images in a figure
    example_steps: int = size(40, quick=20)  # of the attack on them
    cost_train: int = size(10_000, quick=2000)  # images of the comparison of ACET's attacks
    cost_epochs: int = size(5, quick=1)
    cost_seeds: int = size(3, quick=2)
    cost_attacked: int = size(400, quick=60)  # images under the judge of that comparison
    timed: int = size(10_000, quick=1000)  # images of a timed epoch
    repeats: int = size(3, quick=2)  # of a timing


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL
