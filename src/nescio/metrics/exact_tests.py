"""Exact one-sided tests of errors: are they more than elsewhere, more than the confidence allows?

Both are exact for any number of samples; nothing is asymptotic. They need independent samples.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Floats, NescioError, Numbers, numbers

ROUNDING = 1e-12  # of a tail; a p-value is never below it


def excess_test(wrong: Numbers, inside: Numbers, strata: Numbers | None = None) -> float:
    """Are errors more frequent inside a group than among the other samples? The p-value.

    Fisher's exact test (1935): given the number of errors, those inside are hypergeometric if being
    wrong does not depend on being inside. With strata the errors inside are a sum of hypergeometric
    numbers (the exact version of the test of Mantel and Haenszel, 1959).

    >>> round(excess_test([1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]), 4)  # 1 of 56
    0.0179

    wrong: whether each answer is an error, `(N,)`.
    inside: whether each sample is in the group, `(N,)`.
    strata: integers, `(N,)`; samples are compared with others of the same stratum only. None: all
      are compared.
    """
    from scipy.stats import hypergeom

    bad, mine = _flags("wrong", wrong), _flags("inside", inside)
    layer = np.zeros(len(bad), np.int64) if strata is None else numbers("strata", strata, axes=1)
    if not len(bad) == len(mine) == len(layer):
        raise NescioError(
            f"`wrong`, `inside` and `strata` must have one value per sample each, got {len(bad)}, "
            f"{len(mine)} and {len(layer)}"
        )
    _, layer = np.unique(layer, return_inverse=True)
    whole, errors, members = (np.bincount(layer, weights=w) for w in (None, bad, mine))
    law = np.ones(1)
    for total, failed, size in np.stack([whole, errors, members], axis=1).astype(np.int64):
        most = min(failed, size)
        law = np.convolve(law, hypergeom.pmf(np.arange(most + 1), total, failed, size))
    return _tail(law, int((bad & mine).sum()))


def overconfidence_test(confidence: Numbers, wrong: Numbers) -> float:
    """Are errors more frequent than the confidence of the samples allows? The p-value.

    If every sample were correct with a probability of at least its confidence, the errors would be
    at most a sum of independent draws with probabilities 1 - confidence (Poisson binomial).

    >>> round(overconfidence_test([0.9, 0.9], [1, 1]), 6)  # 0.1 squared
    0.01

    confidence: confidence of each sample, from 0 to 1, `(N,)`.
    wrong: whether each answer is an error, `(N,)`.
    """
    sure, bad = numbers("confidence", confidence, axes=1), _flags("wrong", wrong)
    if len(sure) != len(bad):
        raise NescioError(f"got {len(sure)} confidences of {len(bad)} samples; give one of each")
    return _tail(poisson_binomial(1 - sure.astype(np.float64)), int(bad.sum()))


def poisson_binomial(chances: Numbers) -> Floats:
    """The probabilities `(N + 1,)` of the number of successes of N independent draws.

    >>> poisson_binomial([0.5, 0.5]).round(12).tolist()
    [0.25, 0.5, 0.25]

    chances: probability of success of each draw, `(N,)`.
    """
    chance = numbers("chances", chances, axes=1).astype(np.float64)
    if not np.all((chance >= -ROUNDING) & (chance <= 1 + ROUNDING)):
        raise NescioError(f"expected chances from 0 to 1, got {chance.min():g} to {chance.max():g}")
    count = len(chance)
    padded = np.zeros(1 << (count - 1).bit_length())  # a draw that never succeeds changes nothing
    padded[:count] = chance.clip(0, 1)
    law = np.stack([1 - padded, padded], axis=1)  # one polynomial per draw, joined two by two
    while len(law) > 1:
        size = 2 * law.shape[1]
        waves = np.fft.rfft(law, size, axis=1)
        law = np.fft.irfft(waves[::2] * waves[1::2], size, axis=1)[:, : size - 1]
    return np.maximum(law[0, : count + 1], 0.0)


def _tail(law: Floats, observed: int) -> float:
    """The chance of `observed` or more, rounded up."""
    return 1.0 if observed == 0 else min(1.0, float(law[observed:].sum()) + ROUNDING)


def _flags(name: str, given: Numbers) -> NDArray[np.bool_]:
    values: NDArray[Any] = numbers(name, given, axes=1)
    if not np.isin(values, (0, 1)).all():
        raise NescioError(f"`{name}` must hold 0 or 1 for each sample; got other numbers")
    return values.astype(bool)
