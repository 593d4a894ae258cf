"""The trust score (Jiang et al., 2018): is the predicted class nearer than every other one?

Their score is the distance to the nearest other class over that to the predicted class. Here it is
minus the logarithm of it, so that larger is less sure and nothing saturates.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.activations import FEATURES, Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.knn import knn
from nescio.detectors.moments import precision, read
from nescio.errors import NescioError
from nescio.registry import detectors

ROWS = 256  # queries at a time
LEAST = 1e-12  # distances below it count as that: a training input is at distance 0 of itself


@detectors.register
def trust_score(
    train: Activations,
    *,
    alpha: float = 0.0,
    k: int = 10,
    layer: str | None = None,
    normalise: bool = False,
) -> Detector:
    """Log of the distance to the predicted class over that to the nearest other class.

    The search is exact. Distances are to the nearest training feature of a class; where the
    predicted class has none, the class that is furthest off stands for it.

    alpha: share of each class that is left out, those with the widest circle of `k` neighbours of
    their own class: mislabelled and odd inputs. 0 keeps all, the default of the authors' code.
    layer: none is that before the last linear layer.
    normalise: divide features by their length first.
    """
    if not 0 <= alpha < 1:
        raise NescioError(f"alpha must be a share from 0 up and below 1, got {alpha}")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise NescioError(f"k must be a whole number from 1 up, got {k!r}")
    name, labels = train.layer(layer), train.known().long()
    known = labels.unique()
    if len(known) < 2:
        raise NescioError(
            f"all training labels are {int(known[0])}; the trust score compares classes"
        )
    if int(known[0]) < 0 or int(known[-1]) >= train.classes:
        raise NescioError(
            f"labels must be from 0 to {train.classes - 1}, the classes of the logits, got "
            f"{int(known[0])} to {int(known[-1])}; renumber them as the network has them"
        )
    own = [labels == label for label in known]
    states = []
    for member in range(train.members):
        rows = train.features[name][member]
        rows = rows.to(precision(rows))
        rows = F.normalize(rows, dim=1) if normalise else rows
        parts = [_dense(rows[mask], alpha, k) for mask in own]
        sizes = torch.tensor([len(part) for part in parts])
        states.append({"bank": torch.cat(parts), "sizes": sizes, "classes": known.clone()})
    options = {"alpha": float(alpha), "k": k, "normalise": normalise}
    return Detector("trust_score", options, (name,), tuple(states), train.made, train.hashes)


@scores.named("trust_score")
def score(
    view: View,
    state: State,
    layers: tuple[str, ...],
    *,
    alpha: float,
    k: int,
    normalise: bool,
) -> Tensor:
    """Find the nearest of each class by products, then measure distances by differences."""
    del alpha, k
    bank, answers = state["bank"], view.logits.argmax(-1)
    half = bank.square().sum(1) / -2
    found, start = [], 0
    for rows in read(view.features[layers[0]], bank, ROWS * bank.shape[1]):
        own = F.normalize(rows, dim=1) if normalise else rows
        predicted, other = _pair(own.detach(), state, half, answers[start : start + len(own)])
        lengths = [
            torch.linalg.vector_norm(own - bank[place], dim=1) for place in (predicted, other)
        ]
        near, far = (length.clamp_min(LEAST).log() for length in lengths)
        found.append(near - far)
        start += len(own)
    return torch.cat(found)


@torch.no_grad()
def _pair(rows: Tensor, state: State, half: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """Places in the bank of the nearest of the predicted class, and of any other, each `(n,)`."""
    values, places, start = [], [], 0
    for size in state["sizes"].tolist():
        part = slice(start, start + size)
        value, place = torch.addmm(half[part], rows, state["bank"][part].T).max(1)
        values.append(value)
        places.append(place + start)
        start += size
    near, where = torch.stack(values, 1), torch.stack(places, 1)  # (n, C), largest is nearest
    chosen = answers[:, None] == state["classes"]
    absent = ~chosen.any(1)
    furthest = F.one_hot(near.argmin(1), near.shape[1]).bool()
    chosen = torch.where(absent[:, None], furthest, chosen)
    others = near.masked_fill(chosen, -math.inf).argmax(1, keepdim=True)
    return where[chosen], where.gather(1, others)[:, 0]


def _dense(rows: Tensor, alpha: float, k: int) -> Tensor:
    """The rows of a class without the share `alpha` that is furthest from its neighbours."""
    kept = math.ceil((1 - alpha) * len(rows))
    if alpha == 0 or kept == len(rows):
        return rows
    alone = Activations(
        logits=rows.new_zeros(len(rows), 1), features={FEATURES: rows}, checked=True
    )
    radius = knn(alone, k=min(k + 1, len(rows)), normalise=False)(alone)  # the first is itself
    return rows[radius.argsort(stable=True)[:kept].sort().values]
