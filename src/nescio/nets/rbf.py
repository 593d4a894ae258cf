"""Radial basis functions: a network whose logits vanish far from its centers.

`f_k(x) = sum_l alpha_kl exp(-gamma |x - x_l|^2)`, the network of theorem 3.2 of Hein et al. (2019).
`geometry.certificate` says how far away it is close to uniform.
"""

from collections.abc import Sequence
from copy import deepcopy
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import NescioError, as_inputs
from nescio.nets.factory import is_scaled, network

PAIRS = 1000  # points whose distances the median is taken of


class RBF(nn.Module):
    """Fixed centers `(L, F)`, saved with the weights `alpha` `(K, L)`, which are trained."""

    centers: Tensor

    def __init__(self, features: int, outputs: int, centers: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("centers", torch.randn(centers, features))
        self.alpha = nn.Parameter(torch.randn(outputs, centers) / centers**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-self.gamma * self.distances(x)) @ self.alpha.T

    def distances(self, x: Tensor) -> Tensor:
        """Squared distances `(N, L)` to the centers, by one product.

        Both are taken from the mean of the centers: less is lost where the terms cancel.
        """
        middle = self.centers.mean(0)
        x, centers = x.flatten(1) - middle, self.centers - middle
        far = x.square().sum(1, keepdim=True)
        squares = (far + centers.square().sum(1) - 2 * (x @ centers.T)).clamp(min=0)
        return torch.where(far.isfinite(), squares, torch.inf)

    def extra_repr(self) -> str:
        centers, features = self.centers.shape
        return f"{features} features, {centers} centers, gamma={self.gamma}"


@network
def rbf(
    inputs: int | Sequence[int], outputs: int, *, centers: int = 100, gamma: float = 1.0
) -> nn.Module:
    """Weighted sums of Gaussian bumps around fixed centers; far away every class is as likely.

    The centers are random numbers until `centered` moves them to data; `median_gamma` finds a width
    for them.

    inputs: number of features, or the shape of an image, which is flattened.
    outputs: number of outputs, such as classes.
    centers: number of centers.
    gamma: one over the squared width of a bump, which is exp(-gamma d^2) at a distance d.
    """
    features = prod((inputs,) if isinstance(inputs, int) else tuple(inputs))
    if min(features, outputs, centers) < 1:
        raise NescioError(
            f"sizes must be positive, got {features} features, {outputs} outputs, {centers} centers"
        )
    if not 0 < gamma < float("inf"):
        raise NescioError(f"gamma must be a positive number, got {gamma}")
    return RBF(features, outputs, centers, float(gamma))


def centered(net: nn.Module, x: Any, *, method: str = "points", seed: int = 0) -> nn.Module:
    """A copy of an rbf network whose centers are data `(N, ...)`.

    For an rbf behind a `Standardize` the data are scaled first:
    `train(lambda: centered(standardized(rbf(2, 2), x), x), (x, y))`.

    net: a network of `rbf`.
    x: the data.
    method: "points", drawn from the data without repetition, or "k-means".
    seed: seed of the random draws.
    """
    copy = deepcopy(net)
    layer = find_rbf(copy)
    if layer is None:
        raise NescioError(f"centered reads a network of nets.rbf, got {type(net).__name__}")
    points = as_inputs(x, "x")
    points = (copy[0](points) if is_scaled(copy) else points).flatten(1)  # type: ignore[index]
    count, features = layer.centers.shape
    if points.shape[1] != features or len(points) < count:
        raise NescioError(
            f"{count} centers of {features} features need at least as many points, got "
            f"{len(points)} of {points.shape[1]} features"
        )
    layer.centers.copy_(_chosen_centers(points.double().cpu().numpy(), count, method, seed))
    return copy


def median_gamma(x: Any, *, seed: int = 0) -> float:
    """One over the median squared distance of two samples of `x` `(N, ...)`, of at most 1000.

    seed: seed of the draw of the 1000 samples.
    """
    points = as_inputs(x, "x", dtype=torch.float64).flatten(1)
    rows = np.random.default_rng(seed).permutation(len(points))[:PAIRS]
    distances = torch.pdist(points[rows]).square()
    middle = float(distances.median()) if len(distances) else 0.0
    if not middle > 0:
        raise NescioError("half of the points or more are the same; choose gamma by hand")
    return 1 / middle


def find_rbf(net: nn.Module) -> RBF | None:
    """The rbf that `net` is, by itself or behind its input scaling; else None."""
    layer = net[1] if is_scaled(net) else net  # type: ignore[index]
    return layer if isinstance(layer, RBF) else None


def _chosen_centers(points: np.ndarray[Any, Any], count: int, method: str, seed: int) -> Tensor:
    if method == "points":
        rows = np.random.default_rng(seed).permutation(len(points))[:count]
        return torch.from_numpy(points[rows])
    if method == "k-means":
        from sklearn.cluster import KMeans

        means = KMeans(count, n_init=1, random_state=seed).fit(points)
        return torch.from_numpy(means.cluster_centers_)
    raise NescioError(f"unknown method {method!r}; known: points, k-means")
