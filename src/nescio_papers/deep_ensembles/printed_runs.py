"""The practical's two runs from its own random numbers: its data, initial weights and steps.

Its data are NumPy's, its initial weights and orders JAX's (`threefry`), its arithmetic has 32 bits.
What differs is how sums are rounded. On the cubic four of the six networks hardly feel that and end
at the printed losses to four digits; two, and all of the spiral's, amplify it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import Head, categorical
from nescio.data import Dataset
from nescio.data.sets.toy import ARMS, TURN
from nescio.models.model import History, Model
from nescio.nets.stack import Stack
from nescio.training.optimizers import BETA1, BETA2, EPSILON
from nescio_papers.deep_ensembles import quirks, spiral_world
from nescio_papers.deep_ensembles.cubic_world import (
    EDGE,
    NOISE,
    RADIUS,
    Regressor,
    cubic_net,
)
from nescio_papers.deep_ensembles.spiral_world import spiral_net
from nescio_papers.deep_ensembles.threefry import Floats, key_of, normal, shuffled, split
from nescio_papers.kit import Settings

INITIAL = (624.8802, 864.7967, 544.54504, 532.7735, 617.4408, 685.33264)  # as printed
FINAL = (9.232912, 3.532995, 5.225137, 3.0285718, 8.246596, 6.4121294)
SCALES = (0.05341477, 0.12899350, 0.06450740, 0.18599582, 0.02181395, 0.17893712)
STEADY = (0, 1, 4, 5)  # networks that end at the printed losses, however sums are rounded
ACCURACY, NLL = 0.964, 0.106  # of the spiral's ensemble, on the training data
Score = Callable[[Tensor, Tensor], Tensor]  # outputs (M, N, O) and targets to losses (M,)
Batches = Callable[[], tuple[Tensor, Tensor]]  # inputs and targets (M, N, ...)
CUBIC_STEPS, SPIRAL_STEPS, QUICK_STEPS = 600, 300, 20


@dataclass(frozen=True)
class PrintedRecipe:
    """What the networks of a run have in common.

    make: factory of the network, whose weights are not read.
    head: how its outputs are read.
    score: the loss of the data by member.
    decay: strength of the norm of the weights, which is added to the loss.
    rate: Adam's step size.
    steps: number of steps, on all points each.
    radius: by how much adversarial training moves the inputs; None: there is none.
    """

    make: Callable[[], nn.Module]
    head: Head
    score: Score
    decay: float
    rate: float
    steps: int
    radius: float | None


def cubic_points() -> tuple[Dataset, tuple[float, ...]]:
    """The forty points of the practical, and the scales of the initial weights."""
    draw = np.random.RandomState(173)
    x = np.array([draw.uniform(-EDGE, EDGE) for _ in range(40)], dtype=np.float32)[:, None]
    noise = np.array([draw.normal(0, NOISE) for _ in range(40)], dtype=np.float32)[:, None]
    train = torch.from_numpy(x), torch.from_numpy(x * x * x + noise)
    scales = []
    for _ in INITIAL:
        draw = np.random.RandomState(100 + abs(int(draw.normal(0, 1) * 10000)))
        scales.append(abs(draw.normal(0, 0.1)))
    data = Dataset(name="cubic", train=train, validation=None, test=None, classes=None)
    return data, tuple(scales)


def spiral_points() -> Dataset:
    """The three arms of the practical, a thousand points each."""
    draw = np.random.RandomState(0)
    radius = np.linspace(0, 1, 1000)
    arms = []
    for arm in range(ARMS):
        spread = draw.randn(1000) * spiral_world.NOISE * (radius + 1)
        theta = np.linspace(arm * TURN, (arm + 1) * TURN, 1000) + spread
        arms.append(np.stack([radius * np.sin(theta), radius * np.cos(theta)], axis=1))
    x = torch.from_numpy(np.concatenate(arms)).float()
    train = x, torch.arange(ARMS).repeat_interleave(1000)
    return Dataset(name="spiral", train=train, validation=None, test=None, classes=ARMS)


def starts(net: nn.Module, seeds: Sequence[int], scales: Sequence[float]) -> dict[str, Tensor]:
    """Stacked initial weights by name: JAX's normal numbers times the scale of each network."""
    names = [name for name, _ in net.named_parameters()]
    shapes = [tuple(weight.shape) for weight in net.parameters()]
    every = [_start(shapes, seed, scale) for seed, scale in zip(seeds, scales, strict=True)]
    stacks = (torch.from_numpy(np.stack(same)) for same in zip(*every, strict=True))
    return dict(zip(names, stacks, strict=True))


def _start(shapes: Sequence[tuple[int, ...]], seed: int, scale: float) -> list[Floats]:
    """The weights and biases of one network: a key a layer, and one left over."""
    keys = split(key_of(seed), len(shapes) // 2 + 1)
    own = [part for key in keys[:-1] for part in split(key)]
    return [np.float32(scale) * normal(key, s) for key, s in zip(own, shapes, strict=True)]


def cubic_printed(
    settings: Settings, adversarial: bool = False
) -> tuple[tuple[Dataset, Regressor], ...]:
    """The practical's six networks on the cubic, once for each of several orders of the points.

    In exact arithmetic all orders give the same; the first is the practical's.

    settings: what the caller chose.
    adversarial: with the adversarial loss of the practical's code, which it prints no run of.
    """
    return tuple(_cubic_run(order, adversarial) for order in range(_orders(settings)))


def spiral_printed(settings: Settings) -> tuple[tuple[Dataset, Model], ...]:
    """The practical's four networks on the spiral, once for each of several orders of the points.

    settings: what the caller chose.
    """
    steps = QUICK_STEPS if settings.quick else SPIRAL_STEPS
    return tuple(_spiral_run(order, steps) for order in range(_orders(settings)))


def _orders(settings: Settings) -> int:
    return 2 if settings.quick else 5


@cache
def _cubic_run(order: int, adversarial: bool) -> tuple[Dataset, Regressor]:
    """Six networks; order 0 has the points as they were drawn, another one shuffles them."""
    data, scales = cubic_points()
    head = quirks.deviation_head()
    recipe = PrintedRecipe(
        make=cubic_net,
        head=head,
        score=lambda outputs, y: head.nll(outputs, y).mean(1),
        decay=0.0,
        rate=0.08,
        steps=CUBIC_STEPS,
        radius=RADIUS if adversarial else None,
    )
    rows = torch.from_numpy(shuffled(key_of(order), 40)) if order else torch.arange(40)
    x, y = (part[rows].expand(len(scales), *part.shape) for part in data.train)
    begin = starts(cubic_net(), [10 * member for member in range(len(scales))], scales)
    return data, Regressor(descend(recipe, begin, lambda: (x, y)))


@cache
def _spiral_run(order: int, steps: int) -> tuple[Dataset, Model]:
    """Four networks; order is the seed of the orders of the points at every step."""
    data, head, members = spiral_points(), categorical(), 4
    recipe = PrintedRecipe(
        make=spiral_net,
        head=head,
        score=lambda outputs, y: head.nll(outputs, y).mean(1) / ARMS,
        decay=1e-3,
        rate=0.1,
        steps=steps,
        radius=None,
    )
    key = key_of(order)

    def batches() -> tuple[Tensor, Tensor]:
        nonlocal key
        rows = []
        for _ in range(members):
            key, own = split(key)
            rows.append(torch.from_numpy(shuffled(own, len(data.train[0]))))
        chosen = torch.stack(rows)
        return data.train[0][chosen], data.train[1][chosen]

    return data, descend(recipe, starts(spiral_net(), range(members), [0.1] * members), batches)


def descend(recipe: PrintedRecipe, begin: dict[str, Tensor], batches: Batches) -> Model:
    """Networks trained by Adam as the practical calls it: told at every step that it is the first.

    recipe: what the networks have in common.
    begin: stacked initial weights by name.
    batches: called at every step; inputs and targets of all members.
    """
    net = recipe.make()
    forward = Stack(net)
    names, weights = list(begin), [t.clone().requires_grad_() for t in begin.values()]
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    history = []
    for _ in range(recipe.steps):
        x, y = batches()
        score = _objective(recipe, forward, dict(zip(names, weights, strict=True)), x, y)
        slopes = torch.autograd.grad(score.sum(), weights)
        history.append(score.detach())
        with torch.no_grad():
            for state in zip(weights, slopes, means, squares, strict=True):
                _first_step(*state, recipe.rate)
    final = {name: w.detach() for name, w in zip(names, weights, strict=True)}
    return Model(net, final, recipe.head, history=History(torch.stack(history)))


def _objective(
    recipe: PrintedRecipe, forward: Stack, tensors: dict[str, Tensor], x: Tensor, y: Tensor
) -> Tensor:
    """The losses by member: of the data, of moved data where it is adversarial, of the weights."""
    if recipe.radius is None:
        score = recipe.score(forward(tensors, x), y)
    else:
        x = x.detach().clone().requires_grad_()
        plain = recipe.score(forward(tensors, x), y)
        (slope,) = torch.autograd.grad(plain.sum(), x, retain_graph=True)
        moved = (x + recipe.radius * slope.sign()).detach()
        score = (plain + recipe.score(forward(tensors, moved), y)) / 2
    if recipe.decay:
        norms = torch.stack([w.flatten(1).square().sum(1) for w in tensors.values()])
        score = score + recipe.decay * norms.sum(0).sqrt()
    return score


def _first_step(weight: Tensor, slope: Tensor, mean: Tensor, square: Tensor, rate: float) -> None:
    """Adam's step, in place, with the corrections of its first, which have 32 bits too."""
    correction1, correction2 = (1 - torch.tensor(beta) for beta in (BETA1, BETA2))
    mean.copy_((1 - BETA1) * slope + BETA1 * mean)
    square.copy_((1 - BETA2) * slope.square() + BETA2 * square)
    weight.sub_(rate * (mean / correction1) / ((square / correction2).sqrt() + EPSILON))
