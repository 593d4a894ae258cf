"""The blocks of table 1: the data networks are trained on, and the OOD sets at hand beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nescio.data import OODSource, crop, gray
from nescio.data.ood import paper_noise
from nescio_papers.kit.experiment import Settings
from nescio_papers.kit.images import UNSEEN, WHOLE, InData, OODSet, all_images, ood_images
from nescio_papers.relu_overconfidence.budgets import Budget
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    NOISE,
)

if TYPE_CHECKING:
    from nescio.evaluation.compare import Absent

LETTERS, STRICT = "letters", "letters without O, I, S, Z"
EMNIST_STRICT = "EMNIST without O, I, S, Z"
KANA, TINY = "Kuzushiji-MNIST", "Tiny-ImageNet without CIFAR-10's classes"
IMAGENET = "Imagenet-"
NUMBERS = {**WHOLE, "test": 2000}  # of SVHN: the other digits of the test file train


@dataclass(frozen=True, kw_only=True)
class Block:
    """Networks trained on one data set."""

    name: str  # as in the paper
    data: str  # name of the data set
    ood: Mapping[str, OODSet]  # by row
    radius: float  # of the attack on test images
    step: float
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # our row -> the published row
    options: Mapping[str, Any] = field(default_factory=lambda: WHOLE)  # of the data set

    @property
    def part(self) -> str:
        """The name of the part that trains them."""
        return f"table-1-{self.data}"


COLOR = {
    "SVHN": OODSet(data="svhn", options=WHOLE),
    "CIFAR-10": OODSet(data="cifar10", options=WHOLE),
    "CIFAR-100": OODSet(data="cifar100", options=WHOLE),
    "LSUN CR": OODSet(data="lsun_classroom"),
    IMAGENET: OODSet(data="imagenet_minus"),
    TINY: OODSet(data="tiny_imagenet", options={"without": "cifar10"}),
}
GRAY = {
    "FMNIST": OODSet(data="fashion_mnist", options=WHOLE),
    KANA: OODSet(data="kuzushiji_mnist", options=WHOLE),
    "EMNIST": OODSet(data="emnist_letters", options=WHOLE),
    EMNIST_STRICT: OODSet(data="emnist_letters", options={**WHOLE, "without": "OISZ"}),
    LETTERS: OODSet(data="letters"),
    STRICT: OODSet(data="letters", options={"without": "OISZ"}),
    "grayCIFAR-10": OODSet(data="cifar10", options=WHOLE, change=lambda x: crop(gray(x), 28)),
}


def _color(name: str, data: str, options: Mapping[str, Any] = WHOLE) -> Block:
    others = {row: source for row, source in COLOR.items() if row != name}
    return Block(
        name=name,
        data=data,
        ood=others,
        radius=0.1,
        step=0.0025,
        stand_ins={TINY: IMAGENET},
        options=options,
    )


BLOCKS = {
    "MNIST": Block(
        name="MNIST",
        data="mnist",
        ood=GRAY,
        radius=0.3,
        step=0.0075,
        stand_ins=dict.fromkeys((EMNIST_STRICT, LETTERS, STRICT), "EMNIST"),
    ),
    "SVHN": _color("SVHN", "svhn", NUMBERS),
    "CIFAR-10": _color("CIFAR-10", "cifar10"),
    "CIFAR-100": _color("CIFAR-100", "cifar100"),
}


def in_data(block: Block, budget: Budget) -> "InData | Absent":
    """The training and test images of a block, or what is missing."""
    from nescio.evaluation.compare import Absent

    whole = all_images(block.data, test=budget.test, options=block.options)
    if isinstance(whole, Absent):
        return whole
    x, y = whole.train
    count = budget.train[block.name]
    return replace(whole, train=(x[:count], y[:count]))


def probes(block: Block, in_dist: InData, budget: Budget, settings: Settings) -> dict[str, Any]:
    """The rows of a block beside the in-distribution data, as `nescio.compare` takes them."""
    from nescio.evaluation.compare import Absent, AdversarialNoise, AdversarialSamples

    rows: dict[str, Any] = {
        row: ood_images(source, budget.test) for row, source in block.ood.items()
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
