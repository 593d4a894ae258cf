"""The distance to the k-th nearest training feature (Sun et al., 2022)."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.moments import blocks, precision, read
from nescio.errors import NescioError
from nescio.randomness import generator
from nescio.registry import detectors

ROWS = 256  # queries at a time
PIECE = 1 << 16  # rows of the bank at a time: products take at most 64 MB
GROUP = 8  # products of which the largest stands for all in the first search


@detectors.register
def knn(
    train: Activations,
    *,
    k: int = 50,
    layer: str | None = None,
    normalise: bool = True,
    share: float = 1.0,
    seed: int = 0,
) -> Detector:
    """The Euclidean distance to the k-th nearest training feature.

    The search is exact. A training input finds itself as its nearest neighbour, so its score is
    that of the neighbour k - 1: judge by inputs that are not in the bank.

    layer: none is that before the last linear layer.
    normalise: divide features by their length first, as published.
    share: keep this share of the training features, drawn by `seed`.
    """
    name = train.layer(layer)
    chosen = _chosen(train.cases, share, seed)
    size = train.cases if chosen is None else len(chosen)
    if not 1 <= k <= size:
        raise NescioError(
            f"k must be from 1 to {size}, the number of features in the bank, got {k}"
        )
    states = tuple(
        {"bank": _bank(train.features[name][member], chosen, normalise)}
        for member in range(train.members)
    )
    options = {"k": k, "normalise": normalise, "share": share, "seed": seed}
    return Detector("knn", options, (name,), states, train.made)


@scores.named("knn")
def score(
    view: View,
    state: State,
    layers: tuple[str, ...],
    *,
    k: int,
    normalise: bool,
    share: float,
    seed: int,
) -> Tensor:
    """Find the k-th neighbour by products, then measure the distance to it by the difference."""
    del share, seed
    bank = state["bank"]
    half = None if normalise else bank.square().sum(1) / -2
    room = bank.new_empty(ROWS, min(PIECE, len(bank)))
    found = []
    for rows in read(view.features[layers[0]], bank, ROWS * bank.shape[1]):
        own = F.normalize(rows, dim=1) if normalise else rows
        far = own - bank[_neighbour(own.detach(), bank, half, k, room)]
        found.append(torch.linalg.vector_norm(far, dim=1))
    return torch.cat(found)


@torch.no_grad()
def _neighbour(queries: Tensor, bank: Tensor, half: Tensor | None, k: int, room: Tensor) -> Tensor:
    """Places `(n,)` in the bank of the k-th nearest rows; the nearest has the largest product."""
    values, places = [], []
    for start in range(0, len(bank), PIECE):
        part = slice(start, start + PIECE)
        piece = bank[part]
        near = torch.mm(queries, piece.T, out=room[: len(queries), : len(piece)])
        if half is not None:
            near += half[part]
        value, place = _largest(near, min(k, near.shape[1]))
        values.append(value)
        places.append(place + start)
    last = torch.cat(values, 1).topk(k).indices[:, -1:]
    return torch.cat(places, 1).gather(1, last)[:, 0]


def _largest(products: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, and where: first the groups that may hold them, then those."""
    groups = products.shape[1] // GROUP
    if groups < 4 * k:
        return products.topk(k, sorted=False)
    whole = products[:, : groups * GROUP].unflatten(1, (GROUP, groups))
    best = whole.amax(1).topk(k, sorted=False).indices  # the k largest are in k groups
    steps = torch.arange(GROUP, device=best.device) * groups
    rest = torch.arange(groups * GROUP, products.shape[1], device=best.device)
    places = (best[:, :, None] + steps).flatten(1)
    places = torch.cat([places, rest.expand(len(places), -1)], 1)
    value, inner = products.gather(1, places).topk(k, sorted=False)
    return value, places.gather(1, inner)


def _chosen(cases: int, share: float, seed: int) -> Tensor | None:
    if not 0 < share <= 1:
        raise NescioError(f"share must be in (0, 1], got {share}")
    if share == 1:
        return None
    order = torch.randperm(cases, generator=generator(seed, "bank"))
    return order[: math.ceil(share * cases)].sort().values


def _bank(features: Tensor, chosen: Tensor | None, normalise: bool) -> Tensor:
    kept = features if chosen is None else features[chosen.to(features.device)]
    bank = torch.empty_like(kept, dtype=precision(features))
    for part, rows in blocks(kept):
        bank[part] = F.normalize(rows, dim=1) if normalise else rows
    return bank
