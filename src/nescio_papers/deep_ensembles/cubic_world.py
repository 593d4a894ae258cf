"""The cubic: y = x^3 with noise of deviation 3, and networks trained on forty points of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import cast

import torch
from torch import Tensor, nn

from nescio import losses, nets
from nescio.core import DoubleExponential, Gaussian, Regression, heads
from nescio.data import Dataset, cubic
from nescio.losses import Loss
from nescio.models.model import Model
from nescio_papers.deep_ensembles.worlds import SHARE, fast_gradient, seeds, train, warm_cosine
from nescio_papers.kit import Settings

WIDTHS = (10, 6, 30)
NOISE = 3.0
EDGE = 4.0  # the data end here, on both sides
RADIUS = 0.08


@dataclass(frozen=True, eq=False)
class Regressor:
    """Networks trained on targets in units of `unit`, which answer in the units of the data."""

    model: Model
    unit: float = 1.0

    def __call__(self, x: Tensor) -> Regression:
        result = self.model(x)
        if isinstance(result, DoubleExponential):
            return DoubleExponential(self.unit * result.mean, self.unit * result.scale)
        result = cast(Gaussian, result)
        return Gaussian(self.unit * result.mean, self.unit**2 * result.variance)

    def losses(self) -> Tensor:
        """The training loss by step and member, in the units of the data."""
        assert self.model.history is not None
        return self.model.history.train + math.log(self.unit)


def regressor(
    data: Dataset,
    *,
    loss: Loss | None = None,
    members: int = 6,
    steps: int,
    batch_size: int | None = None,
    seed: int = 0,
    make: Callable[[], nn.Module] | None = None,
    bootstrap: bool = False,
) -> Regressor:
    """The corrected recipe: ordinary Adam, smaller steps, targets in units of their deviation."""
    x, y = data.train
    unit = y.std().item()
    batches = 1 if batch_size is None else -(-len(x) // batch_size)
    model = train(
        make or cubic_net,
        (x, y / unit),
        loss=loss or losses.nll(heads.gaussian()),
        members=members,
        epochs=steps // batches,
        batch_size=batch_size,
        learning_rate=0.02,
        schedule=warm_cosine,
        seed=seed,
        bootstrap=bootstrap,
    )
    return Regressor(model, unit)


def cubic_net() -> nn.Module:
    """The practical's regression network with standard initial weights."""
    net: nn.Module = nets.mlp(1, 2, widths=WIDTHS)
    return net


def cubic_held_out(seed: int, points: int = 1000) -> tuple[Tensor, Tensor]:
    """Fresh points of the cubic."""
    held = cubic(seed=seed, points=points).test
    assert held is not None
    return held


def strip(low: float, high: float, points: int = 101) -> Tensor:
    """Inputs on both sides of zero with |x| from `low` to `high`, `(2 points, 1)`."""
    side = torch.linspace(low, high, points)
    return torch.cat([-side.flip(0), side])[:, None]


def plain_loss() -> Loss:
    """The corrected loss of the regression."""
    return losses.nll(heads.gaussian())


def training_steps(settings: Settings) -> int:
    """How many steps a training on the cubic takes."""
    return 150 if settings.quick else 600


@cache
def cubic_runs(
    settings: Settings, adversarial: bool = False
) -> tuple[tuple[Dataset, Regressor], ...]:
    """Six networks on each of several draws of the cubic, with or without adversarial training."""
    loss = losses.adversarial(plain_loss(), share=SHARE) if adversarial else plain_loss()
    results = []
    for seed in seeds(settings, 2 if settings.quick else 10):
        data = cubic(seed=seed)
        results.append(
            (data, regressor(data, loss=loss, steps=training_steps(settings), seed=seed))
        )
    return tuple(results)


def cubic_attacked(result: Regressor, x: Tensor, y: Tensor, member: int | None = None) -> Tensor:
    """Inputs moved by the practical's radius to where the network or ensemble fares worst."""
    return fast_gradient(result.model, x, y / result.unit, RADIUS, member)
