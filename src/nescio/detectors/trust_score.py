"""The trust score (Jiang et al., 2018): is the predicted class nearer than every other one?

Their score is the distance to the nearest other class over that to the predicted class. Here it is
minus the logarithm of it, so that larger is less sure and nothing saturates.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, is_whole, one_thread
from nescio.core.registry import detectors
from nescio.detectors.activations import FEATURES, Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.knn import knn
from nescio.detectors.last_layer import check_classes_of
from nescio.detectors.mahalanobis import precision, read

ROWS = 256  # queries at a time
SMALL = 1 << 24  # products up to which a second thread would be waited for longer than it helps
LEAST = 1e-12  # distances below it count as that: a training input is at distance 0 of itself


@detectors.register
def trust_score(
    train: Activations,
    *,
    alpha: float = 0.0,
    k: int = 10,
    layer: str | None = None,
    normalize: bool = False,
) -> Detector:
    """Log of the distance to the predicted class over that to the nearest other class.

    The search is exact. Distances are to the nearest training feature of a class; where the
    predicted class has none, the class that is furthest off stands for it.

    train: activations of the training data, with labels.
    alpha: share of each class that is left out, those with the widest circle of `k` neighbors of
      their own class: mislabeled and odd inputs. 0 keeps all, the default of the authors' code.
    k: number of neighbors that decide about what is left out.
    layer: name of the layer whose features are read; None: that before the last linear layer.
    normalize: whether to divide features by their length first.
    """
    if not 0 <= alpha < 1:
        raise NescioError(f"alpha must be a share from 0 up and below 1, got {alpha}")
    if not is_whole(k, 1):
        raise NescioError(f"k must be a whole number from 1 up, got {k!r}")
    name, labels = train.layer(layer), train.known().long()
    known = labels.unique()
    if len(known) < 2:
        raise NescioError(
            f"all training labels are {int(known[0])}; the trust score compares classes"
        )
    check_classes_of(known, train.classes)
    masks = [labels == label for label in known]
    states = []
    for member in range(train.members):
        rows = train.features[name][member]
        rows = rows.to(precision(rows))
        rows = F.normalize(rows, dim=1) if normalize else rows
        states.append(_prepared([rows[mask] for mask in masks], known, alpha, k))
    options = {"alpha": float(alpha), "k": k, "normalize": normalize}
    return fitted("trust_score", train, options, states, name)


@scores.named("trust_score")
def score(view: View, state: State, *, normalize: bool, **_: float) -> Tensor:
    bank, answers = state["bank"], view.logits.argmax(-1)
    ratios, start = [], 0
    for rows in read(only_layer(view), bank, ROWS * bank.shape[1]):
        rows = F.normalize(rows, dim=1) if normalize else rows
        with one_thread() if len(rows) * bank.numel() < SMALL else nullcontext():
            pair = _pair(rows.detach(), state, answers[start : start + len(rows)])
            apart = (rows - state["centers"][c] - bank[index] for c, index in pair)
            near, far = (a.norm(dim=1).clamp_min(LEAST).log() for a in apart)
        ratios.append(near - far)
        start += len(rows)
    return torch.cat(ratios)


@torch.no_grad()
def _pair(rows: Tensor, state: State, answers: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The predicted class and the nearest other one, and the index of their nearest row."""
    squares, indices, start = [], [], 0
    sizes = state["sizes"].tolist()
    for size, center in zip(sizes, state["centers"], strict=True):
        own, part = rows - center, slice(start, start + size)
        value, position = torch.addmm(state["half"][part], own, state["bank"][part].T).max(1)
        squares.append(own.square().sum(1).sub_(value, alpha=2))
        indices.append(position + start)
        start += size
    far, where = torch.stack(squares, 1), torch.stack(indices, 1)  # (n, C)
    is_own = answers[:, None] == state["classes"]
    chosen = torch.where(is_own.any(1), is_own.int().argmax(1), far.argmax(1))
    other = far.scatter(1, chosen[:, None], math.inf).argmin(1)
    return [(c, where.gather(1, c[:, None])[:, 0]) for c in (chosen, other)]


@torch.no_grad()
def _prepared(parts: Sequence[Tensor], classes: Tensor, alpha: float, k: int) -> dict[str, Tensor]:
    """The state: the rows of each class from its mean, so that products lose no figures."""
    centers = torch.stack([part.double().mean(0) for part in parts]).to(parts[0].dtype)
    near = [_dense(part - mean, alpha, k) for part, mean in zip(parts, centers, strict=True)]
    bank = torch.cat(near)
    return {
        "bank": bank,
        "half": bank.square().sum(1) / -2,
        "centers": centers,
        "sizes": torch.tensor([len(part) for part in near]),
        "classes": classes.clone(),
    }


def _dense(rows: Tensor, alpha: float, k: int) -> Tensor:
    """The rows of a class without the share `alpha` that is furthest from its neighbors."""
    left_out = Fraction(str(float(alpha))) * len(rows) // 1  # the decimal as written
    if not left_out:
        return rows
    logits = rows.new_zeros(len(rows), 1)
    alone = Activations(logits=logits, features={FEATURES: rows}, checked=True)
    radius = knn(alone, k=min(k + 1, len(rows)), normalize=False)(alone)  # the first is itself
    return rows[radius.argsort(stable=True)[: len(rows) - left_out].sort().values]
