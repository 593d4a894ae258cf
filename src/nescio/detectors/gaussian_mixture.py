"""The density of features, one Gaussian per class (Mukhoti et al., 2023: DDU)."""

import math
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.mahalanobis import classes, moments, precision, read, whitened, whitening

KINDS = ("full", "tied", "diagonal")


@detectors.register
def gaussian_mixture(
    train: Activations,
    *,
    layer: str | None = None,
    covariance: str = "full",
    pooled: float = 0.1,
    shrinkage: float = 1e-3,
) -> Detector:
    """Minus the log-density of the features under a Gaussian for each class, weighted by its share.

    -log sum_c pi_c N(f; mu_c, S_c).

    layer: none is that before the last linear layer.
    covariance: "full", one per class; "diagonal", its diagonal; "tied", one for all.
    pooled: S_c = (n_c C_c + p m C) / (n_c + p m), with C_c the covariance of the n_c samples of the
    class, C that of all about their class means, and m the mean number of samples of a class: an
    ordinary class leans on the others a little, one with a single sample wholly (after Friedman,
    1989). 0 is the published method. Not for "tied".
    shrinkage: the share of the identity, scaled to the mean variance of C, in every S_c.
    """
    name = train.layer(layer)
    if covariance not in KINDS:
        raise NescioError(f"covariance must be one of {', '.join(KINDS)}, got {covariance!r}")
    if not 0 <= pooled < math.inf:
        raise NescioError(f"pooled must be a number from 0 on, got {pooled}")
    if not 0 <= shrinkage <= 1:
        raise NescioError(f"shrinkage must be in [0, 1], got {shrinkage}")
    options: dict[str, Any] = {"covariance": covariance, "pooled": pooled, "shrinkage": shrinkage}
    labels, count = classes(train.known())
    states = [_fitted(features, labels, count, **options) for features in train.features[name]]
    return fitted("gaussian_mixture", train, options, states, name)


@scores.named("gaussian_mixture")
def score(view: View, state: State, *, covariance: str, **_: float) -> Tensor:
    """Whiten for each class, then add the densities."""
    means, whiten, level = state["means"], state["whiten"], state["level"]
    densities = []
    for rows in read(only_layer(view), means):
        logs = []
        for label, mean in enumerate(means):
            matrix = whiten[label if len(whiten) > 1 else 0]
            apart = rows - mean
            white = apart * matrix if covariance == "diagonal" else whitened(apart, matrix)
            logs.append(level[label] - white.square().sum(1) / 2)
        densities.append(-torch.stack(logs).logsumexp(0))
    return torch.cat(densities)


@torch.no_grad()
def _fitted(
    features: Tensor,
    labels: Tensor,
    count: int,
    *,
    covariance: str,
    pooled: float,
    shrinkage: float,
) -> dict[str, Tensor]:
    """Class means, a whitening matrix (or diagonal) per class, and the log-density at each mean."""
    about = moments(features, labels, count)
    whiten = []
    for label in range(1 if covariance == "tied" else count):
        spread = about.within
        if covariance != "tied":
            rows = features[(labels == label).to(features.device)]
            lent = pooled * len(features) / count
            spread = (len(rows) * moments(rows).within + lent * spread) / (len(rows) + lent)
        spread = (1 - shrinkage) * spread + shrinkage * about.level
        if covariance == "diagonal":
            spread = spread.diagonal().diag()
        whiten.append(whitening(spread))
    stacked = torch.stack(whiten)
    scale = stacked.diagonal(dim1=1, dim2=2)  # triangular: the determinant is their product
    peak = scale.log().sum(1) - features.shape[1] / 2 * math.log(2 * math.pi)
    state = {
        "means": about.means,
        "whiten": scale if covariance == "diagonal" else stacked,
        "level": (about.counts / len(features)).log() + peak,
    }
    return {name: tensor.to(precision(features)) for name, tensor in state.items()}
