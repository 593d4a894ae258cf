"""Histograms of the predictive entropy, inside and outside (Lakshminarayanan et al., 2017)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nescio.errors import NescioError
from nescio.evaluate import Seen


@dataclass(frozen=True, eq=False)
class Entropies:
    """Shares of inputs by predictive entropy, in nats, from 0 to log C."""

    edges: NDArray[np.float64]
    inside: NDArray[np.float64]  # they sum to 1
    outside: NDArray[np.float64]


def entropies(inside: Seen, outside: Seen, *, bins: int = 40) -> Entropies:
    """How the predictive entropy is spread over inputs from inside and from outside."""
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise NescioError(f"`bins` must be a whole number from 1 up, got {bins!r}")
    classes = inside.log_probs.shape[1]
    edges = np.linspace(0, math.log(classes), bins + 1)
    return Entropies(edges, _shares(inside, edges), _shares(outside, edges))


def _shares(seen: Seen, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(seen.scores["predictive_entropy"])
    inner = np.searchsorted(edges[1:-1], values, side="right")  # rounding may pass log C
    shares: NDArray[np.float64] = np.bincount(inner, minlength=len(edges) - 1) / len(values)
    return shares
