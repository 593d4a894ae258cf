"""The distance to the k-th nearest training feature (Sun et al., 2022), by an exact search.

Rows are taken from the mean of the bank, so that an offset they share costs no figures.
"""

import math

import torch
from torch import Tensor

from nescio.core import NescioError, generator
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.mahalanobis import blocks, precision
from nescio.detectors.neighbors import as_bank, half_squares, kth_nearest, prepared

PROBES = 64  # rows of the bank that show whether float32 tells neighbors apart
TINY = 1e-15
LOST = 1e-4  # a relative error by float32 rows from which a bank is kept in float64


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

    train: activations of the training data.
    k: which neighbor; 50 is the published choice for CIFAR-10. On four of the five networks of
      docs/methods/default-detector.md k = 1 was better, which the default detector of a guard uses.
    layer: name of the layer whose features are read; None: that before the last linear layer.
    normalize: whether to divide features by their length first, as published.
    share: share of the training features to keep, drawn at random.
    seed: seed of the random draws.
    """
    name = train.layer(layer)
    if not 0 < share <= 1:
        raise NescioError(f"share must be in (0, 1], got {share}")
    size = math.ceil(share * train.samples)
    chosen = None
    if share < 1:
        order = torch.randperm(train.samples, generator=generator(seed, "bank"))
        chosen = order[:size].sort().values
    if not 1 <= k <= size:
        raise NescioError(
            f"k must be from 1 to {size}, the number of features in the bank, got {k}"
        )
    states = [_fitted(features, chosen, k, normalize) for features in train.features[name]]
    options = {"k": k, "normalize": normalize, "share": share, "seed": seed}
    return fitted("knn", train, options, states, name)


@scores.named("knn")
def _score(view: View, state: State, *, k: int, normalize: bool, **_: float) -> Tensor:
    bank, features = as_bank(state), only_layer(view)
    rows = _from(state["center"], features, normalize).to(bank.rows.dtype)
    near = bank.rows[kth_nearest(rows.detach(), bank, k)]
    apart = rows.double() - near.double()  # squares of large numbers overflow in float32
    far: Tensor = torch.linalg.vector_norm(apart, dim=1)
    return far.to(precision(features))


def _from(center: Tensor, features: Tensor, normalize: bool) -> Tensor:
    """Features in float64, as they come or of length 1, from the center of the bank."""
    exact = features.double()
    if normalize:
        exact = exact / torch.linalg.vector_norm(exact, dim=1, keepdim=True).clamp_min(1e-300)
    result: Tensor = exact - center
    return result


@torch.no_grad()
def _fitted(features: Tensor, chosen: Tensor | None, k: int, normalize: bool) -> dict[str, Tensor]:
    features = features if chosen is None else features[chosen.to(features.device)]
    center = features.new_zeros(features.shape[1], dtype=torch.float64)
    center = sum((_from(center, r, normalize).sum(0) for _, r in blocks(features)), center.clone())
    center /= len(features)

    def kept(dtype: torch.dtype) -> Tensor:
        bank = torch.empty_like(features, dtype=dtype)
        for part, rows in blocks(features):
            bank[part] = _from(center, rows, normalize)
        return bank

    bank = kept(precision(features))
    if bank.dtype == torch.float32 and _loses(bank, k):
        bank = kept(torch.float64)
    return {**prepared(bank, k), "center": center}


def _loses(rows: Tensor, k: int) -> bool:
    """Whether distances between neighbors are so small that float32 rows do not tell them."""
    largest = float(rows.abs().max())
    if largest and not TINY < largest < 1 / TINY:  # their squares vanish or overflow
        return True
    probes = rows[:: max(1, len(rows) // PROBES)]
    bank = as_bank({"bank": rows, "half": half_squares(rows)})
    near = rows[kth_nearest(probes, bank, min(k + 1, len(rows)))]  # the first is itself
    far = torch.linalg.vector_norm(probes - near, dim=1)
    lost = torch.finfo(rows.dtype).eps * torch.linalg.vector_norm(probes, dim=1)
    return bool((lost > LOST * far)[far > 0].float().mean() > 0.5)
