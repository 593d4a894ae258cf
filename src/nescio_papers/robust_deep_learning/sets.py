"""In-distribution and OOD images at hand, in one shape; none is both trained on and tested."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nescio.data import OODSource, color, crop, gray, pad
from nescio.data.ood import another, paper_noise, stored
from nescio.evaluation.compare import Absent
from nescio_papers.kit import photographs
from nescio_papers.kit.budgets import full_and_quick, size
from nescio_papers.kit.experiment import Settings
from nescio_papers.kit.images import UNSEEN, WHOLE, InData, OODSet, all_images, evenly, loaded

NOISE = "noise"
Sizes = Mapping[str, int]  # by block
EPOCHS: Sizes = {"MNIST": 10, "Fashion-MNIST": 10, "CIFAR-10": 12}
EXPOSED: Sizes = {"MNIST": 4, "CIFAR-10": 10}


@dataclass(frozen=True)
class Block:
    """A data set that networks are trained on, and what they do not know."""

    name: str
    data: str
    ood: Mapping[str, OODSet]


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int = size(60_000, quick=500)  # images at most
    test: int = size(10_000, quick=150)  # images at most, of each set
    epochs: Sizes = size(EPOCHS, quick=dict.fromkeys(EPOCHS, 1))
    exposed_epochs: Sizes = size(EXPOSED, quick=dict.fromkeys(EXPOSED, 1))  # to outliers
    residual_images: int = size(60_000, quick=100)  # of a residual network, at most
    residual_epochs: int = size(photographs.EPOCHS, quick=1)
    out: int = size(20_000, quick=200)  # images of an OOD set at most that a training sees
    batch: int = size(128, quick=50)
    seeds: int = size(3, quick=2)
    example_seeds: int = size(5, quick=2)  # networks of the lecture's example
    others: int = size(2000, quick=100)  # test images of each set, of all of these but the first
    passes: int = size(50, quick=5)  # of MC dropout
    resamples: int = size(200, quick=20)
    tuning: int = size(500, quick=30)  # images that tune ODIN


FULL, QUICK = full_and_quick(Budget)


def _gray(x: Tensor) -> Tensor:
    return crop(gray(x), 28)


def _colored(x: Tensor) -> Tensor:
    return color(pad(x, 32))


KANA, FASHION, DIGITS = "Kuzushiji-MNIST", "Fashion-MNIST", "MNIST"
LETTERS, STRICT, GRAY = "letters", "letters without O, I, S, Z", "gray CIFAR-10"
BLOCKS = {
    "MNIST": Block(
        "MNIST",
        "mnist",
        {
            KANA: OODSet(data="kuzushiji_mnist", options=WHOLE, near=True),
            STRICT: OODSet(data="letters", options={"without": "OISZ"}, near=True),
            FASHION: OODSet(data="fashion_mnist", options=WHOLE),
            GRAY: OODSet(data="cifar10", options=WHOLE, change=_gray),
        },
    ),
    "Fashion-MNIST": Block(
        "Fashion-MNIST",
        "fashion_mnist",
        {
            DIGITS: OODSet(data="mnist", options=WHOLE),
            KANA: OODSet(data="kuzushiji_mnist", options=WHOLE),
            LETTERS: OODSet(data="letters"),
            GRAY: OODSet(data="cifar10", options=WHOLE, change=_gray),
        },
    ),
    "CIFAR-10": Block(
        "CIFAR-10",
        "cifar10",
        {
            "CIFAR-100": OODSet(data="cifar100", options=WHOLE, near=True),
            "SVHN": OODSet(data="svhn", options=WHOLE),
            "LSUN classrooms": OODSet(data="lsun_classroom"),
            FASHION: OODSet(data="fashion_mnist", options=WHOLE, change=_colored),
            LETTERS: OODSet(data="letters", change=_colored),
        },
    ),
}

# in the logs of outlier exposure (Hendrycks et al., 2019), without exposure: AUROC of the maximum
# probability of a small network for MNIST
PUBLISHED_AUROC = {FASHION: 0.9931, GRAY: 0.9987, NOISE: 0.9996}
PUBLISHED_NOTES = {
    row: "the logs of outlier exposure: another small network, 1 OOD image to 5; "
    + ("Gaussian noise" if row == NOISE else "the same set")
    for row in PUBLISHED_AUROC
}


PHOTOGRAPHS = ("CIFAR-10",)  # networks for these are residual, but those of detectors


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def in_data(block: Block, sizes: Budget) -> InData | Absent:
    """The training and test images of a block, or what is missing."""
    return all_images(block.data, train=sizes.train, test=sizes.test)


def ood_data(block: Block, in_dist: InData, sizes: Budget, seed: int) -> dict[str, Any]:
    """OOD sets to test on, as `compare` takes them; noise is the last."""
    rows: dict[str, Any] = {}
    for name, source in block.ood.items():
        rows[name] = _images(source, sizes.test, shown=False)
    return {**rows, NOISE: (paper_noise(in_dist.train[0], seed=seed + UNSEEN), sizes.test)}


def shown_data(
    block: Block, name: str, in_dist: InData, sizes: Budget, seed: int
) -> OODSource | Absent:
    """Images of an OOD set to train with: none of them is tested on."""
    if name == NOISE:
        noise = paper_noise(in_dist.train[0], seed=seed)
        return stored(noise, min(sizes.out, len(in_dist.train[0])))
    images = shown_images(block, name, sizes.out)
    return images if isinstance(images, Absent) else another(images, name)


def shown_images(block: Block, name: str, most: int) -> Tensor | Absent:
    """At most `most` images of an OOD set, none of which is tested on."""
    return _images(block.ood[name], most, shown=True)


def near(block: Block) -> tuple[str, ...]:
    """The names of the OOD sets that are near."""
    return tuple(name for name, source in block.ood.items() if source.near)


def _images(source: OODSet, most: int, *, shown: bool) -> Tensor | Absent:
    """Images to train with or to test on; of a set that has one part, every other image each."""
    dataset = loaded(source.data, **source.options)
    if isinstance(dataset, Absent):
        return dataset
    assert dataset.test is not None
    train, test = dataset.train[0], dataset.test[0]
    if not len(train):
        train, test = test[::2], test[1::2]
    return source.change(evenly(train if shown else test, most))
