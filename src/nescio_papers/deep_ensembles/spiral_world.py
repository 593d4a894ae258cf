"""The spiral: three noisy arms, whose exact class probabilities are known."""

import math
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from nescio import losses, nets
from nescio.core import Classification
from nescio.data import Dataset, spiral
from nescio.data.sets.toy import ARMS, TURN
from nescio.losses import Loss
from nescio.models.model import Model
from nescio_papers.deep_ensembles.worlds import SHARE, seeds, train, warm_cosine
from nescio_papers.kit import Settings

WIDTHS = (150, 150)
NOISE = 0.3
RADIUS = 0.02
DECAY = 1e-5


def spiral_net() -> nn.Module:
    """The practical's classification network with standard initial weights."""
    net: nn.Module = nets.mlp(2, ARMS, widths=WIDTHS)
    return net


def spiral_loss(adversarial: bool = False) -> Loss:
    """The corrected loss of the classification: a sum over classes, a squared norm."""
    plain = losses.weight_decay(losses.nll(), strength=DECAY)
    return losses.adversarial(plain, share=SHARE) if adversarial else plain


def classifier(
    data: Dataset,
    *,
    loss: Loss | None = None,
    members: int = 4,
    epochs: int = 40,
    batch_size: int | None = 100,
    seed: int = 0,
    make: Callable[[], nn.Module] | None = None,
    bootstrap: bool = False,
) -> Model:
    """The corrected recipe: ordinary Adam, smaller steps, inputs in units of their deviation."""
    return train(
        make or spiral_net,
        data.train,
        loss=loss or spiral_loss(),
        members=members,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=0.02,
        schedule=warm_cosine,
        standardize=True,
        seed=seed,
        bootstrap=bootstrap,
    )


def says(model: Model, x: Tensor) -> Classification:
    """What a classifier says, as a prediction of classes."""
    return cast(Classification, model(x))


@cache
def spiral_runs(settings: Settings, adversarial: bool = False) -> tuple[tuple[Dataset, Model], ...]:
    """Four networks on each of several draws of the spiral, in mini-batches: quicker, as good."""
    results = []
    for seed in seeds(settings, 2 if settings.quick else 5):
        data = spiral(seed=seed)
        epochs = 5 if settings.quick else 40
        model = classifier(data, loss=spiral_loss(adversarial), epochs=epochs, seed=seed)
        results.append((data, model))
    return tuple(results)


def true_log_probs(x: Tensor) -> Tensor:
    """Exact log probabilities of the arms given a point of the disc, `(N, 3)`.

    On every arm the radius has the same law, and the angle given the radius is normal around the
    arm's own, so the probabilities are those of three wrapped normal densities.
    """
    radius = x.double().norm(dim=1)[:, None, None]
    angle = torch.atan2(x[:, 0], x[:, 1]).double()[:, None, None]
    turns = 2 * math.pi * torch.arange(-6, 7)
    center = TURN * (torch.arange(ARMS)[None, :, None] + radius)
    scaled = (angle + turns - center) / (NOISE * (radius + 1))
    density: Tensor = (-0.5 * scaled.square()).logsumexp(2)
    return density.log_softmax(1)


def square(points: int, half: float = 2.0) -> Tensor:
    """A grid on [-half, half]^2, `(points^2, 2)`, the first feature slowest."""
    axis = torch.linspace(-half, half, points)
    return torch.cartesian_prod(axis, axis)


def distance(x: Tensor, data: Tensor) -> Tensor:
    """Distance of each point to the nearest of the data."""
    from scipy.spatial import KDTree

    return torch.from_numpy(np.asarray(KDTree(data.numpy()).query(x.numpy())[0]))
