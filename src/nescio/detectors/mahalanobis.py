"""Distances to class means under one covariance (Lee et al., 2018; Ren et al., 2021)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit import moments as kit
from nescio.detectors.kit.moments import Moments, moments, precision, read, whitened, whitening


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

        mahalanobis(nescio.observe(net, (x, y)))(nescio.observe(net, z))  # (N,)
    """
    chosen: Sequence[str | None] = [layers] if isinstance(layers, str) else layers or [None]
    names = [train.layer(name) for name in chosen]
    labels, count = kit.classes(train.known())
    states = []
    for member in range(train.members):
        state: dict[str, Tensor] = {}
        for index, name in enumerate(names):
            features = train.features[name][member]
            about = moments(features, labels, count)
            share = kit.shrunk(shrinkage, features, labels, about)
            part = _whitened_means(about, share, precision(features))
            if len(names) > 1:
                part |= _standard(features, part)
            state |= {f"{key}.{index}": tensor for key, tensor in part.items()}
        states.append(state)
    return fitted("mahalanobis", train, {"shrinkage": shrinkage}, states, *names)


@scores.named("mahalanobis")
def _score(view: View, state: State, **_: float | str) -> Tensor:
    """The distance, or the sum of standardized ones."""
    parts = []
    for index, features in enumerate(view.features.values()):
        part = {key.rpartition(".")[0]: t for key, t in state.items() if key.endswith(f".{index}")}
        distance = nearest(features, part)
        parts.append((distance - part["offset"]) / part["scale"] if "scale" in part else distance)
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


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

        relative_mahalanobis(nescio.observe(net, (x, y)))(nescio.observe(net, z))  # (N,)
    """
    name = train.layer(layer)
    labels, count = kit.classes(train.known())
    states = []
    for features in train.features[name]:
        about = moments(features, labels, count)
        share, kind = kit.shrunk(shrinkage, features, labels, about), precision(features)
        background = whitening(kit.shrink(about.total, share)).to(kind)
        states.append({**_whitened_means(about, share, kind), "background": background})
    return fitted("relative_mahalanobis", train, {"shrinkage": shrinkage}, states, name)


@scores.named("relative_mahalanobis")
def _relative_score(view: View, state: State, **_: float | str) -> Tensor:
    """The difference of the two squared distances."""
    features, center = only_layer(view), state["center"]
    blocks = read(features, center)
    far = [whitened(rows - center, state["background"]).square().sum(1) for rows in blocks]
    return nearest(features, state) - torch.cat(far)


def _whitened_means(about: Moments, share: float, kind: torch.dtype) -> dict[str, Tensor]:
    """The center of all features, the whitening matrix, and the whitened class means."""
    whiten = whitening(kit.shrink(about.within, share))
    means = (about.means - about.mean) @ whiten
    state = {"center": about.mean, "whiten": whiten, "means": means}
    return {name: tensor.to(kind) for name, tensor in state.items()}


def nearest(features: Tensor, state: State) -> Tensor:
    """The squared distance `(N,)` to the nearest class mean: one product for all classes."""
    means = state["means"]
    half = means.square().sum(1) / -2
    distances = []
    for rows in read(features, state["center"]):
        white = whitened(rows - state["center"], state["whiten"])
        label = torch.addmm(half, white.detach(), means.T).argmax(1)
        distances.append((white - means[label]).square().sum(1))  # not expanded: nothing cancels
    return torch.cat(distances)


def _standard(features: Tensor, state: State) -> dict[str, Tensor]:
    distance = nearest(features, state).double()
    spread = distance.std(correction=0).clamp_min(torch.finfo(torch.float32).tiny)
    return {"offset": distance.mean().to(state["center"]), "scale": spread.to(state["center"])}
