"""Detectors that compare with each class: KL matching, SHE, OpenMax, Gaussian densities."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.last_layer import check_width, class_sums, parts, right_classes
from nescio.detectors.mahalanobis import classes, moments, precision, read, whitened, whitening
from nescio.detectors.simple import by_rows, check_classes

CLASSES = ("predicted", "true")
# features (N, 1, F) or (N, F) and patterns that fit -> unlikeness
SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "inner": lambda features, patterns: -(features * patterns).sum(-1),
    "cosine": lambda features, patterns: -F.cosine_similarity(features, patterns, dim=-1),
    "euclidean": lambda features, patterns: (features - patterns).norm(dim=-1),
}
FEWEST = 3  # distances that a tail is fitted to
SPREAD = 1e-6  # distances that differ by less have no shape to fit
ABOVE = 1.0  # the smallest distance of a tail lies this far above the Weibull's origin

DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "euclidean": lambda one, two: (one - two).norm(dim=-1),
    "cosine": lambda one, two: 1 - F.cosine_similarity(one, two, dim=-1),
    "eucos": lambda one, two: (
        (one - two).norm(dim=-1) / 200 + 1 - F.cosine_similarity(one, two, dim=-1)
    ),
}
KINDS = ("full", "tied", "diagonal")


@detectors.register
def kl_matching(train: Activations, *, by: str = "predicted") -> Detector:
    """The least divergence KL(p || d) of the answer p from the mean answers d to a class.

    The paper takes the means over data that the network was not trained on: on training data,
    where it is more confident, they are sharper.

    train: activations of the training data.
    by: "predicted", a mean over the samples that the network gives to a class, no labels needed;
      "true", over those that have the label.
    """
    if by not in CLASSES:
        raise NescioError(unknown("way to form classes", by, CLASSES))
    labels = train.known().long() if by == "true" else None
    states = []
    for logits in train.logits:
        classes = check_classes(logits).argmax(-1) if labels is None else labels.to(logits.device)
        states.append({"logs": _mean_logs(logits, classes)})
    return fitted("kl_matching", train, {"by": by}, states)


@scores.named("kl_matching")
def _kl_matching(view: View, state: State, **_: str) -> Tensor:
    check_width(view.logits, state["logs"])

    def least(logits: Tensor) -> Tensor:
        own = logits.double().log_softmax(-1)
        probs = own.exp()
        cross = (probs @ state["logs"].T).amax(-1)
        return ((probs * own).sum(-1) - cross).to(logits.dtype)

    return by_rows(view.logits, 1.0, least)


def _mean_logs(logits: Tensor, classes: Tensor) -> Tensor:
    """Logarithms `(K, C)` of the mean probabilities of each class, summed so that none vanishes."""
    known, indices = classes.unique(return_inverse=True)
    shape = (len(known), logits.shape[-1])
    highest = torch.full(shape, -torch.inf, dtype=torch.float64, device=logits.device)
    for rows, block in parts(logits):
        index = indices[rows, None].expand_as(block)
        highest.scatter_reduce_(0, index, block.double().log_softmax(-1), "amax")
    sums = torch.zeros_like(highest)
    for rows, block in parts(logits):
        own = indices[rows]
        sums.index_add_(0, own, (block.double().log_softmax(-1) - highest[own]).exp_())
    means: Tensor = sums / indices.bincount()[:, None]
    return highest + means.log()


@detectors.register
def she(train: Activations, *, layer: str | None = None, similarity: str = "inner") -> Detector:
    """Minus the inner product of the features with the mean features of the predicted class.

    The mean is over training samples that the network gets right. An input of a class without any
    is compared with the patterns of all other classes, and the most alike counts.

    train: activations of the training data, with labels.
    layer: name of the layer whose features are read; None: that before the last linear layer.
    similarity: "inner", as published; "cosine" and "euclidean" leave out the length of features.
    """
    if similarity not in SIMILARITIES:
        raise NescioError(unknown("similarity", similarity, SIMILARITIES))
    name = train.layer(layer)
    states = []
    for logits, features in zip(train.logits, train.features[name], strict=True):
        right = right_classes(logits, train.known())
        sums, counts = class_sums(features, right, train.classes)
        if not counts.any():
            raise NescioError(
                "she needs training samples that the network gets right, and there are none; check "
                "that labels and logits belong together"
            )
        patterns = (sums / counts.clamp_min(1)[:, None]).float()
        states.append({"patterns": patterns, "counts": counts})
    return fitted("she", train, {"similarity": similarity}, states, name)


@scores.named("she")
def _she(view: View, state: State, *, similarity: str) -> Tensor:
    features, unlike = only_layer(view), SIMILARITIES[similarity]
    patterns, known = state["patterns"].to(features.dtype), state["counts"] > 0
    check_width(features, patterns)
    label = view.logits.argmax(-1)
    result = unlike(features, patterns[label])
    lost = ~known[label]
    if not lost.any():
        return result
    nearest = torch.stack([unlike(features[lost], mean) for mean in patterns[known]]).amin(0)
    return result.masked_scatter(lost, nearest)


@detectors.register
def openmax(
    train: Activations, *, tail: int = 20, alpha: int = 10, distance: str = "euclidean"
) -> Detector:
    """The log-odds of the unknown class, which takes from classes whose mean logits are far.

    Of each class, a Weibull distribution is fitted to the largest distances from its mean logits
    to those of the training samples that the network gets right. A logit v of one of the first
    classes is lowered to v (1 - w), with w the share of smaller distances, weighed by rank; the sum
    of v w is the logit of the unknown class. A class with fewer than 3 such samples, or with
    distances that are all the same, borrows the tail of all classes together; one with none counts
    as infinitely far.

    train: activations of the training data, with labels.
    tail: how many of the largest distances are fitted.
    alpha: how many of the first classes are lowered.
    distance: "euclidean", "cosine", or "eucos", the paper's, euclidean / 200 + cosine.
    """
    if tail < FEWEST or alpha < 1:
        raise NescioError(f"tail must be {FEWEST} or more, alpha 1 or more, got {tail} and {alpha}")
    if distance not in DISTANCES:
        raise NescioError(unknown("distance", distance, DISTANCES))
    labels = train.known()
    states = [_fitted(logits, labels, tail, distance) for logits in train.logits]
    options = {"tail": int(tail), "alpha": int(alpha), "distance": distance}
    return fitted("openmax", train, options, states)


@scores.named("openmax")
def _openmax(view: View, state: State, *, alpha: int, distance: str, **_: int) -> Tensor:
    check_width(view.logits, state["means"])

    def odds(logits: Tensor) -> Tensor:
        precise = logits.double()
        first, classes = precise.topk(min(alpha, precise.shape[-1]), sorted=True)  # (n, A)
        away = DISTANCES[distance](precise[:, None], state["means"][classes])
        away = (away - state["origin"][classes]).clamp_min(0) / state["scale"][classes]
        smaller = -(-(away ** state["shape"][classes])).expm1()
        ranks = 1 - torch.arange(first.shape[1]).to(first) / first.shape[1]
        taken = first * torch.where(state["known"][classes], smaller, 1.0) * ranks
        lowered = precise.scatter(-1, classes, first - taken)
        return (taken.sum(-1) - lowered.logsumexp(-1)).to(logits.dtype)

    return by_rows(view.logits, 1.0, odds)


def _fitted(logits: Tensor, labels: Tensor, tail: int, distance: str) -> dict[str, Tensor]:
    right = right_classes(check_classes(logits), labels)
    sums, counts = class_sums(logits, right, logits.shape[-1])
    means = sums / counts.clamp_min(1)[:, None]
    far = torch.cat(
        [DISTANCES[distance](block.double(), means[right[rows]]) for rows, block in parts(logits)]
    )
    everything = _tail(far[right >= 0], tail)
    if everything is None:
        raise NescioError(
            f"openmax cannot fit a tail: {int((right >= 0).sum())} samples are correct, "
            "or all are as far from their class's mean; give more training samples"
        )
    rows = [_tail(far[right == label], tail) or everything for label in range(len(means))]
    columns = zip(("shape", "scale", "origin"), zip(*rows, strict=True), strict=True)
    weibull = {name: torch.tensor(numbers).to(means) for name, numbers in columns}
    return {"means": means, "known": counts > 0, **weibull}


def _tail(far: Tensor, size: int) -> tuple[float, float, float] | None:
    """Shape, scale and origin of the largest distances; None where they cannot be fitted."""
    if len(far) < FEWEST:
        return None
    largest = far.topk(min(size, len(far))).values
    origin = float(largest.min()) - ABOVE
    if float(largest.max() - largest.min()) < SPREAD:
        return None
    shape, scale = fit_weibull(largest - origin)
    return shape, scale, origin


def fit_weibull(numbers: Tensor) -> tuple[float, float]:
    """Shape k and scale of `1 - exp(-(x / scale)^k)`, by maximum likelihood.

    The likelihood is largest where sum(x^k log x) / sum(x^k) - 1 / k equals the mean of log x; the
    left side rises with k. `scipy.stats.weibull_min.fit` takes 12 times as long for five digits.
    """
    from scipy.optimize import brentq

    largest = float(numbers.max())
    logs = (numbers.double() / largest).log().cpu().numpy()  # no power overflows

    def gap(shape: float) -> float:
        return float(np.average(logs, weights=np.exp(shape * logs)) - 1 / shape - logs.mean())

    low = high = 1.2 / float(logs.std())  # the deviation of log x is pi / (k sqrt 6)
    while gap(low) > 0:
        low /= 2
    while gap(high) < 0:
        high *= 2
    shape = low if low == high else float(brentq(gap, low, high, xtol=1e-300, rtol=1e-13))
    return shape, largest * float(np.exp(shape * logs).mean()) ** (1 / shape)


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

    train: activations of the training data, with labels.
    layer: name of the layer whose features are read; None: that before the last linear layer.
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
    states = [_gaussians(features, labels, count, **options) for features in train.features[name]]
    return fitted("gaussian_mixture", train, options, states, name)


@scores.named("gaussian_mixture")
def _gaussian_mixture(view: View, state: State, *, covariance: str, **_: float) -> Tensor:
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
def _gaussians(
    features: Tensor, labels: Tensor, count: int, covariance: str, pooled: float, shrinkage: float
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
