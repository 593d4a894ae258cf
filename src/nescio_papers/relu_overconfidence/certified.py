"""Theorem 3.2 of Hein et al. (2019): an RBF network on the digits, beside the ReLU networks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio import nets
from nescio.geometry.certificates import Certificate, certificate
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import Settings
from nescio_papers.relu_overconfidence.alphas import LEVEL, confidence
from nescio_papers.relu_overconfidence.worlds import CONV, MLP, World, accuracies, members, wide

EPSILON = 0.01
NARROWER = 8.0  # gamma in units of one over the median squared distance
RBF = "RBF"
FARTHEST = 1e3  # factor at which the rays end
BINS = 26


@dataclass(frozen=True, eq=False)
class Curve:
    """Confidence by the distance to the nearest training image: mean, lowest and highest a bin."""

    distance: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certified:
    """The trained RBF network, its certificate, curves by network, and what was found."""

    model: Model
    bound: Certificate
    curves: dict[str, Curve]
    numbers: dict[str, Any]

    @property
    def radius(self) -> float:
        """The distance beyond which the certificate holds."""
        return float(self.bound.radius)


def certified(world: World, settings: Settings) -> Certified:
    """Train the network with a center on every training image, and follow it outwards."""
    model = rbf_network(world, settings)
    bound = certificate(wide(model).member(0), EPSILON)
    x = _along_rays(world, 20 if settings.quick else 100, settings)
    distance = bound.distance(x)
    shown = {RBF: wide(model)} | {
        name: wide(members(world.models[name], [0])) for name in (MLP, CONV)
    }
    curves = {name: _curve(distance, confidence(one, x)) for name, one in shown.items()}
    numbers = _numbers(world, model, bound, x, distance)
    beyond = distance >= bound.radius
    numbers["beyond_the_radius"]["mean_confidence"] = {
        name: confidence(one, x[beyond]).mean().item() for name, one in shown.items()
    }
    numbers["beyond_the_radius"]["sure"] = {
        name: (confidence(one, x[beyond]) >= LEVEL).double().mean().item()
        for name, one in shown.items()
    }
    return Certified(model=model, bound=bound, curves=curves, numbers=numbers)


def rbf_network(world: World, settings: Settings) -> Model:
    """f_k(x) = sum over all training images of alpha_kl exp(-gamma |x - x_l|^2)."""
    x = world.data.train[0]
    gamma = NARROWER * nets.median_gamma(x)
    shape, count = world.data.features, len(x)
    return train(
        lambda: nets.centered(nets.rbf(shape, 10, centers=count, gamma=gamma), x),
        world.data.train,
        epochs=20 if settings.quick else 60,
        learning_rate=1e-2,
        schedule="cosine",
        seed=settings.seed,
        progress=False,
    )


def _along_rays(world: World, count: int, settings: Settings) -> Tensor:
    """Noise and test images, each scaled by 60 factors; float64."""
    x = torch.cat([world.noise(count, settings.seed), world.test[0][:count]]).double()
    factors = torch.from_numpy(np.geomspace(1, FARTHEST, 20 if settings.quick else 60))
    return torch.cat([t * x for t in factors])


def _numbers(
    world: World, model: Model, bound: Certificate, x: Tensor, distance: Tensor
) -> dict[str, Any]:
    probs = wide(model).outputs(x).softmax(-1)[0]
    gap = (probs - 1 / bound.classes).abs().amax(1)
    beyond = distance >= bound.radius
    noise = world.noise(1000, 0)
    return {
        "accuracy": accuracies(model, world.test)[0],
        "mean_confidence_test": confidence(wide(model), world.test[0]).mean().item(),
        "epsilon": bound.epsilon,
        "gamma": float(bound.gamma),
        "alpha": float(bound.alpha),
        "radius": float(bound.radius),
        "distance": {
            "test images": bound.distance(world.test[0]).median().item(),
            "noise": bound.distance(noise).median().item(),
        },
        "noise_covered": bound.covers(noise).double().mean().item(),
        "test_covered": bound.covers(world.test[0]).double().mean().item(),
        "beyond_the_radius": {
            "points": int(beyond.sum()),
            "largest_gap": gap[beyond].max().item(),
        },
        "last_distance_above_epsilon": distance[gap > bound.epsilon].max().item(),
    }


def _curve(distance: Tensor, values: Tensor) -> Curve:
    far, shown = distance.numpy(), values.numpy()
    edges = np.geomspace(far.min(), far.max() * (1 + 1e-9), BINS)
    index = np.digitize(far, edges)
    filled = [b for b in range(1, BINS) if (index == b).any()]
    columns = [shown[index == b] for b in filled]
    return Curve(
        distance=np.array([float(np.sqrt(edges[b - 1] * edges[b])) for b in filled]),
        mean=np.array([float(c.mean()) for c in columns]),
        low=np.array([float(c.min()) for c in columns]),
        high=np.array([float(c.max()) for c in columns]),
    )
