"""In-data and OOD sets at hand, cut to one shape, with training and test images that differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nescio.data import OODSource, color, crop, gray, pad
from nescio.data.ood import another, paper_noise, stored
from nescio.evaluation.compare import Absent
from nescio_papers.kit.experiment import Settings
from nescio_papers.kit.images import UNSEEN, WHOLE, InData, all_images, evenly, loaded, spread

NOISE = "noise"


@dataclass(frozen=True)
class OutSet:
    """Where images come from, and how they get the shape of the in-distribution data."""

    data: str  # name of the data set
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Tensor], Tensor] = lambda x: x
    near: bool = False


@dataclass(frozen=True)
class Block:
    """A data set that networks are trained on, and what they do not know."""

    name: str
    data: str
    outsets: Mapping[str, OutSet]


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int  # images at most
    test: int  # images at most, of each set
    epochs: Mapping[str, int]  # by block
    exposed_epochs: Mapping[str, int]  # with outlier exposure
    out: int  # images of an OOD set at most that a training sees
    batch: int
    seeds: int
    passes: int  # of MC dropout
    resamples: int
    tuning: int  # images that tune ODIN


FULL = Budget(
    train=60_000,
    test=10_000,
    epochs={"MNIST": 10, "Fashion-MNIST": 10, "CIFAR-10": 12},
    exposed_epochs={"MNIST": 4, "CIFAR-10": 10},
    out=20_000,
    batch=128,
    seeds=3,
    passes=50,
    resamples=200,
    tuning=500,
)
QUICK = Budget(
    train=1000,
    test=150,
    epochs={"MNIST": 1, "Fashion-MNIST": 1, "CIFAR-10": 1},
    exposed_epochs={"MNIST": 1, "CIFAR-10": 1},
    out=500,
    batch=50,
    seeds=2,
    passes=5,
    resamples=20,
    tuning=30,
)


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
            KANA: OutSet("kuzushiji_mnist", WHOLE, near=True),
            STRICT: OutSet("letters", {"without": "OISZ"}, near=True),
            FASHION: OutSet("fashion_mnist", WHOLE),
            GRAY: OutSet("cifar10", WHOLE, _gray),
        },
    ),
    "Fashion-MNIST": Block(
        "Fashion-MNIST",
        "fashion_mnist",
        {
            DIGITS: OutSet("mnist", WHOLE),
            KANA: OutSet("kuzushiji_mnist", WHOLE),
            LETTERS: OutSet("letters"),
            GRAY: OutSet("cifar10", WHOLE, _gray),
        },
    ),
    "CIFAR-10": Block(
        "CIFAR-10",
        "cifar10",
        {
            "CIFAR-100": OutSet("cifar100", WHOLE, near=True),
            "SVHN": OutSet("svhn", WHOLE),
            "LSUN classrooms": OutSet("lsun_classroom"),
            FASHION: OutSet("fashion_mnist", WHOLE, _colored),
            LETTERS: OutSet("letters", change=_colored),
        },
    ),
}


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def in_data(block: Block, sizes: Budget) -> InData | Absent:
    """The training and test images of a block, or what is missing."""
    found = all_images(block.data)
    if isinstance(found, Absent):
        return found
    train, test = spread(found.train, sizes.train), spread(found.test, sizes.test)
    return InData(train, test, found.classes)


def out_data(block: Block, in_dist: InData, sizes: Budget, seed: int) -> dict[str, Any]:
    """OOD sets to test on, as `compare` takes them; noise is the last."""
    rows: dict[str, Any] = {}
    for name, outset in block.outsets.items():
        found = _parts(outset)
        rows[name] = found if isinstance(found, Absent) else evenly(found[1], sizes.test)
    return {**rows, NOISE: (paper_noise(in_dist.train[0], seed=seed + UNSEEN), sizes.test)}


def shown_data(
    block: Block, name: str, in_dist: InData, sizes: Budget, seed: int
) -> OODSource | Absent:
    """Images of an OOD set to train with: none of them is tested on."""
    if name == NOISE:
        noise = paper_noise(in_dist.train[0], seed=seed)
        return stored(noise, min(sizes.out, len(in_dist.train[0])))
    found = _parts(block.outsets[name])
    return found if isinstance(found, Absent) else another(evenly(found[0], sizes.out), name)


def near(block: Block) -> tuple[str, ...]:
    """The names of the OOD sets that are near."""
    return tuple(name for name, outset in block.outsets.items() if outset.near)


def _parts(outset: OutSet) -> tuple[Tensor, Tensor] | Absent:
    """Training and test images; of a set that has only one of them, every other image each."""
    found = loaded(outset.data, **outset.options)
    if isinstance(found, Absent):
        return found
    assert found.test is not None
    train, test = found.train[0], found.test[0]
    if not len(train):
        train, test = test[::2], test[1::2]
    return outset.change(train), outset.change(test)
