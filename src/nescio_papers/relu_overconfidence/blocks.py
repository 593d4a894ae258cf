"""The blocks of table 1: the data networks are trained on, and the OOD sets at hand beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nescio.data import OODSource, crop, gray
from nescio.data.ood import paper_noise
from nescio.evaluation.compare import Absent, AdversarialNoise, AdversarialSamples
from nescio_papers.kit.experiment import Settings
from nescio_papers.kit.images import UNSEEN, WHOLE, InData, all_images, loaded, spread
from nescio_papers.relu_overconfidence.budgets import Budget
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    NOISE,
)

LETTERS, STRICT = "letters", "letters without O, I, S, Z"
EMNIST_STRICT = "EMNIST without O, I, S, Z"


@dataclass(frozen=True)
class OutSet:
    """Where the images of a row come from."""

    data: str  # name of the data set
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Tensor], Tensor] = lambda x: x  # to the shape of the in-distribution data


@dataclass(frozen=True)
class Block:
    """Networks trained on one data set."""

    name: str  # as in the paper
    data: str  # name of the data set
    outsets: Mapping[str, OutSet]
    radius: float  # of the attack on test images
    step: float
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # our row -> the published row

    @property
    def part(self) -> str:
        """The name of the part that trains them."""
        return f"table-1-{self.data}"


COLOR = {
    "SVHN": OutSet("svhn", WHOLE),
    "CIFAR-10": OutSet("cifar10", WHOLE),
    "CIFAR-100": OutSet("cifar100", WHOLE),
    "LSUN CR": OutSet("lsun_classroom"),
    "Imagenet-": OutSet("imagenet_minus"),
}
GRAY = {
    "FMNIST": OutSet("fashion_mnist", WHOLE),
    "EMNIST": OutSet("emnist_letters", WHOLE),
    EMNIST_STRICT: OutSet("emnist_letters", {**WHOLE, "without": "OISZ"}),
    LETTERS: OutSet("letters"),
    STRICT: OutSet("letters", {"without": "OISZ"}),
    "grayCIFAR-10": OutSet("cifar10", WHOLE, change=lambda x: crop(gray(x), 28)),
}


def _color(name: str, own: str) -> Block:
    others = {row: outset for row, outset in COLOR.items() if row != name}
    return Block(name, own, others, radius=0.1, step=0.0025)


BLOCKS = {
    "MNIST": Block(
        "MNIST",
        "mnist",
        GRAY,
        0.3,
        0.0075,
        stand_ins=dict.fromkeys((EMNIST_STRICT, LETTERS, STRICT), "EMNIST"),
    ),
    "SVHN": _color("SVHN", "svhn"),
    "CIFAR-10": _color("CIFAR-10", "cifar10"),
    "CIFAR-100": _color("CIFAR-100", "cifar100"),
}


def in_data(block: Block, budget: Budget) -> InData | Absent:
    """The training and test images of a block, or what is missing."""
    found = all_images(block.data)
    if isinstance(found, Absent):
        return found
    x, y = found.train
    few = budget.train[block.name]
    return InData((x[:few], y[:few]), spread(found.test, budget.test), found.classes)


def probes(block: Block, in_dist: InData, budget: Budget, settings: Settings) -> dict[str, Any]:
    """The rows of a block beside the in-distribution data, as `nescio.compare` takes them."""
    rows: dict[str, Any] = {
        row: out_data(outset, budget.test) for row, outset in block.outsets.items()
    }
    if isinstance(rows.get("EMNIST"), Absent):
        del rows[EMNIST_STRICT]
    elif "EMNIST" in rows:
        del rows[LETTERS], rows[STRICT]
    noise = unseen_noise(in_dist, settings)
    near_noise = AdversarialNoise(
        noise,
        budget.attacked[block.name],
        steps=budget.noise_steps,
        restarts=budget.restarts,
        seed=settings.seed,
    )
    near_data = AdversarialSamples(
        budget.attacked[block.name],
        radius=block.radius,
        steps=budget.sample_steps,
        step=block.step,
        seed=settings.seed,
    )
    attacks = {ADVERSARIAL_NOISE: near_noise, ADVERSARIAL_SAMPLES: near_data}
    return {**rows, NOISE: (noise, budget.test), **attacks}


def unseen_noise(in_dist: InData, settings: Settings) -> OODSource:
    """The paper's noise from another seed than that of the training."""
    return paper_noise(in_dist.train[0], seed=settings.seed + UNSEEN)


def out_data(outset: OutSet, most: int) -> Tensor | Absent:
    """Test images of an OOD set, at even distances, or what is missing."""
    found = loaded(outset.data, **outset.options)
    if isinstance(found, Absent):
        return found
    assert found.test is not None
    return outset.change(spread(found.test, most)[0])
