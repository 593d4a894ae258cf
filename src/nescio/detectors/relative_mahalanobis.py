"""The Mahalanobis distance relative to that of all classes as one (Ren et al., 2021)."""

import torch
from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.moments import (
    classes,
    moments,
    precision,
    read,
    shrink,
    shrunk,
    whitened,
    whitening,
)
from nescio.detectors.mahalanobis import fitted, nearest


@detectors.register
def relative_mahalanobis(
    train: Activations, *, layer: str | None = None, shrinkage: float | str = 1e-3
) -> Detector:
    """The squared distance to the nearest class mean, minus that to the mean of all classes.

    min over c of (f - mu_c)' S^-1 (f - mu_c), minus (f - mu)' T^-1 (f - mu), with S the covariance
    about the class means and T that about the mean of all. Features that say nothing of the class
    vary alike in S and T, and cancel.

    layer: none is that before the last linear layer.
    shrinkage: as in `mahalanobis`, for both covariances.
    """
    name = train.layer(layer)
    places, count = classes(train.known())
    states = tuple(
        _fitted(train.features[name][member], places, count, shrinkage)
        for member in range(train.members)
    )
    return Detector(
        "relative_mahalanobis", {"shrinkage": shrinkage}, (name,), states, train.made, train.hashes
    )


@scores.named("relative_mahalanobis")
def score(view: View, state: State, layers: tuple[str, ...], *, shrinkage: float | str) -> Tensor:
    """The difference of the two squared distances."""
    del shrinkage
    features = view.features[layers[0]]
    center, background = state["center"], state["background"]
    rows = read(features, center)
    far = [whitened(own - center, background).square().sum(1) for own in rows]
    return nearest(features, state) - torch.cat(far)


def _fitted(
    features: Tensor, places: Tensor, count: int, shrinkage: float | str
) -> dict[str, Tensor]:
    found = moments(features, places, count)
    share, kind = shrunk(shrinkage, features, places, found), precision(features)
    background = whitening(shrink(found.total, share)).to(kind)
    return {**fitted(found, share, kind), "background": background}
