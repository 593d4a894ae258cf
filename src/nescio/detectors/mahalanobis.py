"""The distance to the nearest class mean under one covariance (Lee et al., 2018)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.moments import (
    Moments,
    classes,
    moments,
    precision,
    read,
    shrink,
    shrunk,
    whitened,
    whitening,
)


@detectors.register
def mahalanobis(
    train: Activations,
    *,
    layers: str | Sequence[str] | None = None,
    shrinkage: float | str = 1e-3,
) -> Detector:
    """The squared Mahalanobis distance of the features to the nearest class mean.

    min over c of (f - mu_c)' S^-1 (f - mu_c), with S the covariance of the features about their
    class means, divided by the number of samples. The published score has the opposite sign; its
    change of the input is left out.

    layers: one or several; none is that before the last linear layer. The scores of several are
    standardized on the training data and added.
    shrinkage: the share s of (1 - s) S + s tr(S) / F * I, in [0, 1], which keeps S regular where
    features are constant or outnumber the samples; "ledoit_wolf" estimates it.
    """
    names = _names(train, layers)
    places, count = classes(train.known())
    states = []
    for member in range(train.members):
        state: dict[str, Tensor] = {}
        for place, name in enumerate(names):
            features = train.features[name][member]
            found = moments(features, places, count)
            own = fitted(found, shrunk(shrinkage, features, places, found), precision(features))
            if len(names) > 1:
                own |= _standard(features, own)
            state |= {f"{key}.{place}": tensor for key, tensor in own.items()}
        states.append(state)
    return Detector(
        "mahalanobis", {"shrinkage": shrinkage}, names, tuple(states), train.made, train.hashes
    )


@scores.named("mahalanobis")
def score(view: View, state: State, layers: tuple[str, ...], *, shrinkage: float | str) -> Tensor:
    """The distance, or the sum of standardized ones."""
    del shrinkage
    parts = []
    for place, name in enumerate(layers):
        own = {key.rpartition(".")[0]: t for key, t in state.items() if key.endswith(f".{place}")}
        distance = nearest(view.features[name], own)
        parts.append((distance - own["offset"]) / own["scale"] if "scale" in own else distance)
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def fitted(found: Moments, share: float, kind: torch.dtype) -> dict[str, Tensor]:
    """The center of all features, the whitening matrix, and the whitened class means."""
    whiten = whitening(shrink(found.within, share))
    means = (found.means - found.mean) @ whiten
    kept = {"center": found.mean, "whiten": whiten, "means": means}
    return {name: tensor.to(kind) for name, tensor in kept.items()}


def nearest(features: Tensor, state: State) -> Tensor:
    """The squared distance `(N,)` to the nearest class mean: one product for all classes."""
    means = state["means"]
    half = means.square().sum(1) / -2
    found = []
    for rows in read(features, state["center"]):
        white = whitened(rows - state["center"], state["whiten"])
        label = torch.addmm(half, white.detach(), means.T).argmax(1)
        found.append((white - means[label]).square().sum(1))  # not expanded: nothing cancels
    return torch.cat(found)


def _standard(features: Tensor, state: State) -> dict[str, Tensor]:
    distance = nearest(features, state).double()
    tiny = torch.finfo(torch.float32).tiny
    spread = distance.std(correction=0).clamp_min(tiny)
    return {
        "offset": distance.mean().to(state["center"]),
        "scale": spread.to(state["center"]),
    }


def _names(train: Activations, layers: str | Sequence[str] | None) -> tuple[str, ...]:
    if layers is None or isinstance(layers, str):
        return (train.layer(layers),)
    return tuple(train.layer(name) for name in layers) or (train.layer(None),)
