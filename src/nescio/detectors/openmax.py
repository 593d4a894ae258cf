"""The probability of an unknown class (OpenMax: Bendale and Boult, 2016, algorithms 1 and 2)."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.kit.blocks import by_rows, check_classes
from nescio.detectors.kit.last_layer import check_width, class_sums, parts, right_classes

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

    tail: how many of the largest distances. alpha: how many of the first classes are lowered.
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
def score(view: View, state: State, *, alpha: int, distance: str, **_: int) -> Tensor:
    """The log-odds of the unknown class."""
    check_width(view.logits, state["means"])
    return by_rows(view.logits, 1.0, lambda block: _unknown(block, state, alpha, distance))


def _unknown(logits: Tensor, state: State, alpha: int, distance: str) -> Tensor:
    """The unknown class's logit minus the log-sum-exp of the lowered others, in float64."""
    precise = logits.double()
    first, classes = precise.topk(min(alpha, precise.shape[-1]), sorted=True)  # (n, A)
    away = DISTANCES[distance](precise[:, None], state["means"][classes]) - state["origin"][classes]
    power = (away.clamp_min(0) / state["scale"][classes]) ** state["shape"][classes]
    smaller = torch.where(state["known"][classes], -(-power).expm1(), 1.0)
    ranks = 1 - torch.arange(first.shape[1]).to(first) / first.shape[1]
    taken = first * smaller * ranks
    lowered = precise.scatter(-1, classes, first - taken)
    return (taken.sum(-1) - lowered.logsumexp(-1)).to(logits.dtype)


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
    borrowed = torch.tensor(everything, dtype=torch.float64)
    known = counts.nonzero()[:, 0].tolist()
    rows = {label: _tail(far[right == label], tail) or everything for label in known}
    weibulls = torch.stack(
        [torch.tensor(rows[c]).to(borrowed) if c in rows else borrowed for c in range(len(means))]
    ).to(means)
    shape, scale, origin = weibulls.T.contiguous()
    weibull = {"shape": shape, "scale": scale, "origin": origin}
    return {"means": means, "known": counts > 0, **{n: t.clone() for n, t in weibull.items()}}


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
