"""Brier score and NLL in parts: uncertainty - resolution + reliability + within (Murphy, 1973).

Samples of one predicted class and of like confidence form a group. With the group's mean
probabilities p, its shares of labels q and the shares of labels o among all samples:

    uncertainty   H(o)            what is lost by always answering o
    resolution    mean D(q, o)    what the groups tell apart
    reliability   mean D(q, p)    what is lost by answers that are not the shares: miscalibration
    within        the rest        what differs within groups (Stephenson et al., 2008)

For the Brier score H is sum q (1 - q) and D the squared distance; for the NLL the entropy and the
Kullback-Leibler divergence (Bröcker, 2009). The sum is exact. `refinement` is uncertainty -
resolution. Few samples in a group make resolution and reliability larger than they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.metrics.as_arrays import Floats, Numbers, numbers
from nescio.metrics.binning import check_bins, equal_counts
from nescio.metrics.classification import brier, checked_blocks, checked_labels, nll


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """A score as `uncertainty - resolution + reliability + within`."""

    score: float
    uncertainty: float
    resolution: float
    reliability: float

    @property
    def within(self) -> float:
        """What differs within groups; NaN where both the score and reliability are infinite."""
        return self.score - (self.uncertainty - self.resolution + self.reliability)

    @property
    def refinement(self) -> float:
        """What recalibration of the groups would leave."""
        return self.uncertainty - self.resolution


def brier_decomposition(probs: Numbers, labels: Numbers, *, bins: int = 10) -> Decomposition:
    """The Brier score in parts, over groups of the predicted class and `bins` of confidence."""
    score = brier(probs, labels)
    return _decomposed(probs, labels, bins, score, lambda q: q * (1 - q), lambda q, p: (q - p) ** 2)


def nll_decomposition(probs: Numbers, labels: Numbers, *, bins: int = 10) -> Decomposition:
    """The NLL in parts, over groups of the predicted class and `bins` of confidence."""
    from scipy.special import entr, rel_entr

    return _decomposed(probs, labels, bins, nll(probs, labels), entr, rel_entr)


def _decomposed(
    probs: Numbers,
    labels: Numbers,
    bins: int,
    score: float,
    spread: Callable[[Floats], Floats],
    distance: Callable[[Floats, Floats], Floats],
) -> Decomposition:
    check_bins(bins)
    table = numbers("probs", probs, axes=2)
    wanted = checked_labels(labels, table)
    weight, mean, share = _groups(table, wanted, bins)
    overall = np.bincount(wanted, minlength=table.shape[1]) / len(table)
    return Decomposition(
        score=score,
        uncertainty=float(spread(overall).sum()),
        resolution=float(weight @ distance(share, overall).sum(-1)),
        reliability=float(weight @ distance(share, mean).sum(-1)),
    )


def _groups(table: NDArray[Any], wanted: NDArray[Any], bins: int) -> tuple[Floats, ...]:
    """Weights `(G,)`, mean probabilities and shares of labels `(G, C)` of nonempty groups."""
    from scipy.sparse import csr_array

    samples, classes = table.shape
    top = table.argmax(1)
    sure = table[np.arange(samples), top]
    slot = np.searchsorted(equal_counts(sure, bins), sure)
    _, group, count = np.unique(top * bins + slot, return_inverse=True, return_counts=True)
    shape = (len(count), samples)
    member = csr_array((np.ones(samples), (group, np.arange(samples))), shape=shape).tocsc()
    sums = np.zeros((len(count), classes))
    for rows, block in checked_blocks(table):
        sums += member[:, rows] @ block
    hits = np.bincount(group * classes + wanted, minlength=sums.size).reshape(sums.shape)
    return count / samples, sums / count[:, None], hits / count[:, None]
