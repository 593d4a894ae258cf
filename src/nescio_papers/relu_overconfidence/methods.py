"""How the networks of table 1 are trained: a network, options and losses for each block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from nescio import losses, nets
from nescio.attacks import Ascent
from nescio.data import OODSource
from nescio.data.augmentation import crops
from nescio.data.ood import mixture, paper_noise, patches, shapes, stored, strokes
from nescio.losses import Loss
from nescio_papers.kit import photographs

PLAIN, CEDA, ACET = "plain", "CEDA", "ACET"
NO_DECAY, LABELS = "plain, no decay", "adversarial labels"
ACET_DRAWN, CEDA_DRAWN = "ACET, drawn images too", "CEDA, drawn images too"  # beside noise
ACET_40 = "ACET, 40 steps"  # the paper's attack in each training step
LENET, LENET_ACET = "LeNet", "LeNet, ACET"  # the paper's network
FIRST_ROUND = "ACET, first round"  # what ACET starts from, where it has a second; no column
DECAY = 1e-4  # times the sum of all squared weights; the paper's 5e-4 is for 100 epochs
POOL = 3000  # attacked images that take turns: few enough for each to come back
KEPT: Mapping[str, Any] = {"attack": Ascent(radius=0.3, steps=0), "free": 0.5, "ramp": 0.3}
FORTY: Mapping[str, Any] = {"attack": Ascent(radius=0.3, steps=40, step=0.0075), "keep": False}

MakeNet = Callable[[tuple[int, ...], int], nn.Module]  # shape of an image, classes
MakeLoss = Callable[[Tensor, int], Loss]  # training images, seed of the noise


@dataclass(frozen=True)
class Recipe:
    """How all networks of a block are made; epochs and batch size are in the budget."""

    words: str  # what differs from the paper
    net: MakeNet
    options: Mapping[str, Any]  # of nescio.train
    losses: Mapping[str, MakeLoss]  # by column
    columns: tuple[str, ...] = (PLAIN, CEDA, ACET, NO_DECAY, LABELS)  # of the table
    start: Mapping[str, str] = field(default_factory=dict)  # column -> whose network it starts from
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # options of a column, first
    nets: Mapping[str, MakeNet] = field(default_factory=dict)  # of a column, where it is another
    seeds: Mapping[str, int] = field(default_factory=dict)  # trainings of a column; 1 of others


def on_data(
    loss: Callable[..., Loss] | None = None, *, decay: float = DECAY, **options: Any
) -> MakeLoss:
    """Cross-entropy, or what `loss` makes of it, with weight decay."""
    whole = losses.nll() if loss is None else loss(losses.nll(), **options)
    decayed = losses.weight_decay(whole, strength=decay) if decay else whole

    def make(x: Tensor, seed: int) -> Loss:
        del x, seed
        return decayed

    return make


def on_noise(loss: Callable[..., Loss], *, decay: float = DECAY, **options: Any) -> MakeLoss:
    """CEDA or ACET on the paper's noise, as many images as there are training images.

    Where attacks are kept, a tenth of them, at most POOL, take turns.
    """

    def make(x: Tensor, seed: int) -> Loss:
        kept = loss is losses.acet and options.get("keep", True)
        noise = stored(paper_noise(x, seed=seed), pool_of(x) if kept else len(x))
        whole = loss(losses.nll(), noise, pool=noise.size, **options)
        return losses.weight_decay(whole, strength=decay) if decay else whole

    return make


def on_noise_and_near(*, decay: float, share: float, pool: int, **options: Any) -> MakeLoss:
    """ACET on noise images that take turns, and CEDA on others, which are never attacked.

    share: number of images of each kind, for each training image.
    pool: how many attacked images take turns.
    options: other options of `losses.acet`.
    """

    def make(x: Tensor, seed: int) -> Loss:
        noise = stored(paper_noise(x, seed=seed), len(x))
        attacked = losses.acet(losses.nll(), noise, pool=min(pool, len(x)), share=share, **options)
        both = losses.ceda(attacked, noise, share=share, form="uniform")
        return losses.weight_decay(both, strength=decay)

    return make


def on_drawn(loss: Callable[..., Loss], *, decay: float = DECAY, **options: Any) -> MakeLoss:
    """CEDA or ACET on noise and silhouettes, and CEDA on pen strokes and shuffled patches.

    No OOD set of the test is among them. The last two are near the digits: they are not attacked.
    Both losses see the same images, so that only the attack tells them apart.
    Half as many images as in the paper are shown beside a training batch.
    """

    def make(x: Tensor, seed: int) -> Loss:
        near, off = _far_drawn(x, seed), _near_drawn(x, seed)
        attacked = loss(losses.nll(), near, share=0.35, weight=0.7, pool=near.size, **options)
        whole = losses.ceda(attacked, off, share=0.15, weight=0.3)
        return losses.weight_decay(whole, strength=decay)

    return make


def pool_of(x: Tensor, most: int = POOL) -> int:
    """How many attacked images take turns, for training images `x`."""
    return min(most, max(len(x) // 10, 128))


def _far_drawn(x: Tensor, seed: int) -> OODSource:
    kinds = [paper_noise(x, seed=seed), shapes(tuple(x.shape[1:]), seed=seed)]
    return stored(mixture(kinds, (3, 2)), pool_of(x))


def _near_drawn(x: Tensor, seed: int) -> OODSource:
    shuffled = [patches(x, grid=grid, seed=seed) for grid in (2, 4, 7)]
    kinds = [strokes(tuple(x.shape[1:]), seed=seed), *shuffled]
    return stored(mixture(kinds, (3, 1, 1, 1)), max(1, round(0.3 * len(x))))


MNIST_COLUMNS = (
    PLAIN, CEDA, ACET, ACET_DRAWN, CEDA_DRAWN, NO_DECAY, LABELS, LENET, LENET_ACET, ACET_40
)  # fmt: skip
MNIST = Recipe(
    words="a small strided network instead of a LeNet; the attack of ACET continues from epoch to "
    "epoch",
    net=nets.small_cnn,
    options={"learning_rate": 2e-3, "schedule": "cosine", "augment": [crops(2)]},
    losses={
        PLAIN: on_data(),
        CEDA: on_noise(losses.ceda),
        ACET: on_noise(losses.acet, **KEPT),
        ACET_DRAWN: on_drawn(losses.acet, **KEPT),
        CEDA_DRAWN: on_drawn(losses.ceda),
        NO_DECAY: on_data(decay=0.0),
        LABELS: on_data(losses.adversarial_training, clean=0.5),
        LENET: on_data(),
        LENET_ACET: on_noise(losses.acet, **KEPT),
        ACET_40: on_noise(losses.acet, **FORTY),
    },
    columns=MNIST_COLUMNS,
    nets=dict.fromkeys((LENET, LENET_ACET), nets.lenet),
    seeds={**dict.fromkeys(MNIST_COLUMNS, 3), **dict.fromkeys((PLAIN, CEDA, ACET), 5)},
)
COLOR_DECAY = photographs.DECAY  # half of the paper's 5e-4, which torch's optimizers call this
COLOR = Recipe(
    words="the paper's ResNet-20, in bfloat16; CEDA and ACET start from the plain "
    "network, with the uniform form of the term, and crops without black edges; ACET sees noise as "
    "it is beside attacked noise, and its attack continues from visit to visit",
    net=photographs.residual_network,
    options=photographs.OPTIONS,
    losses={
        PLAIN: on_data(decay=COLOR_DECAY),
        CEDA: on_noise(losses.ceda, decay=COLOR_DECAY, share=0.5, form="uniform"),
        ACET: on_noise_and_near(
            decay=COLOR_DECAY,
            share=0.25,
            pool=512,
            weight=2.0,
            weight_ramp=0.1,
            from_data=0.75,
            candidates=8,
        ),
    },
    columns=(PLAIN, CEDA, ACET),
    start={CEDA: PLAIN, ACET: PLAIN},
    own={
        CEDA: {**photographs.TUNED, "epochs": 6},
        ACET: {**photographs.TUNED, "epochs": 24},
    },
)
WHOLE_NUMBERS = {**photographs.TUNED, "augment": [crops(4, edge="mirror")]}
SEARCHED: Mapping[str, Any] = {
    "share": 0.375, "pool": 768, "from_data": 0.667, "candidates": 8, "weight": 2.0
}  # fmt: skip
NUMBERS = replace(
    COLOR,  # never mirrored; a first round alone left a place that leaking gradients find
    words=f"{COLOR.words}; the searches of its second round follow leaking gradients in half of "
    "the steps, and of both rounds the averaged weights are taken",
    options={**COLOR.options, "augment": [crops(4)], "epochs": 30},
    losses={
        **COLOR.losses,
        FIRST_ROUND: on_noise_and_near(decay=COLOR_DECAY, weight_ramp=0.1, **SEARCHED),
        ACET: on_noise_and_near(decay=COLOR_DECAY, leaking=0.5, **SEARCHED),
    },
    start={CEDA: PLAIN, FIRST_ROUND: PLAIN, ACET: FIRST_ROUND},
    own={
        CEDA: {**WHOLE_NUMBERS, "epochs": 6},
        FIRST_ROUND: {**WHOLE_NUMBERS, "epochs": 26, "average": 0.998},
        ACET: {**WHOLE_NUMBERS, "epochs": 11, "average": 0.995, "learning_rate": 0.03},
    },
)
RECIPES = {"MNIST": MNIST, "SVHN": NUMBERS, "CIFAR-10": COLOR, "CIFAR-100": COLOR}
