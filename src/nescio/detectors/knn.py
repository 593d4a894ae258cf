"""The distance to the k-th nearest training feature (Sun et al., 2022)."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, generator
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.moments import blocks, precision
from nescio.detectors.kit.neighbors import as_bank, kth_nearest, prepared


@detectors.register
def knn(
    train: Activations,
    *,
    k: int = 50,
    layer: str | None = None,
    normalize: bool = True,
    share: float = 1.0,
    seed: int = 0,
) -> Detector:
    """The Euclidean distance to the k-th nearest training feature.

    The search is exact. A training input finds itself as its nearest neighbor, so its score is
    that of the neighbor k - 1: judge by inputs that are not in the bank.

    layer: none is that before the last linear layer.
    normalize: divide features by their length first, as published.
    share: keep this share of the training features, drawn by `seed`.
    """
    name = train.layer(layer)
    chosen = _chosen(train.samples, share, seed)
    size = train.samples if chosen is None else len(chosen)
    if not 1 <= k <= size:
        raise NescioError(
            f"k must be from 1 to {size}, the number of features in the bank, got {k}"
        )
    states = [_fitted(features, chosen, k, normalize) for features in train.features[name]]
    options = {"k": k, "normalize": normalize, "share": share, "seed": seed}
    return fitted("knn", train, options, states, name)


@scores.named("knn")
def score(view: View, state: State, *, k: int, normalize: bool, **_: float) -> Tensor:
    """Find the k-th neighbor by products, then measure the distance to it by the difference."""
    bank = as_bank(state)
    rows = only_layer(view).to(bank.rows.dtype)
    rows = F.normalize(rows, dim=1) if normalize else rows
    near = bank.rows[kth_nearest(rows.detach(), bank, k)]
    distance: Tensor = torch.linalg.vector_norm(rows - near, dim=1)
    return distance


def _chosen(samples: int, share: float, seed: int) -> Tensor | None:
    if not 0 < share <= 1:
        raise NescioError(f"share must be in (0, 1], got {share}")
    if share == 1:
        return None
    order = torch.randperm(samples, generator=generator(seed, "bank"))
    return order[: math.ceil(share * samples)].sort().values


def _fitted(features: Tensor, chosen: Tensor | None, k: int, normalize: bool) -> dict[str, Tensor]:
    features = features if chosen is None else features[chosen.to(features.device)]
    bank = torch.empty_like(features, dtype=precision(features))
    for part, rows in blocks(features):
        bank[part] = F.normalize(rows, dim=1) if normalize else rows
    return prepared(bank, k)
