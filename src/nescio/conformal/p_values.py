"""Conformal p-values of scores, and the OOD inputs of a batch (Vovk et al., 2005)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.conformal.exact_quantiles import CALLS, uniforms
from nescio.core import NescioError, Numbers, numbers


def p_values(
    calibration_scores: Numbers,
    scores: Numbers,
    *,
    randomize: bool = False,
    seed: int = 0,
    first: int = 0,
) -> Tensor:
    """(1 + #{calibration >= score}) / (n + 1) of each score, `(N,)`: small is further out.

    A new score that is exchangeable with the n calibration scores has p <= a with probability at
    most a. With `randomize`, ties are broken at random and the probability is a exactly; `first`
    is then the number of the first sample, where scores come in batches.

    >>> p_values([1.0, 2.0, 3.0], [0.5, 3.0, 9.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    known = np.sort(_checked("calibration_scores", calibration_scores))
    new = _checked("scores", scores, empty=True)
    at_least = len(known) - np.searchsorted(known, new, side="left")
    if not randomize:
        result: NDArray[np.float64] = (1.0 + at_least) / (len(known) + 1)
    else:
        above = len(known) - np.searchsorted(known, new, side="right")
        u = uniforms(seed, CALLS, first, len(new)).numpy()
        result = (above + u * (1 + at_least - above)) / (len(known) + 1)
    device = scores.device if isinstance(scores, Tensor) else "cpu"
    return torch.from_numpy(result).to(device)


def _checked(name: str, values: Numbers, *, empty: bool = False) -> NDArray[np.float64]:
    if empty and isinstance(values, (Tensor, np.ndarray)) and tuple(values.shape) == (0,):
        return np.zeros(0)
    result = numbers(name, values, axes=1).astype(np.float64)
    if lost := int(np.isnan(result).sum()):
        raise NescioError(f"{lost} of {len(result)} {name} are NaN; check the network and inputs")
    return result
