"""Sums that bound a count of errors, at all times and in both directions, by betting.

For a fixed stake l > 0 and answers i = 1, 2, ... let X_i(l) >= 0 with E[X_i(l) | past] at most
exp(-l (e_i - g_i)). Then W_t(l) = prod X_i(l) exp(l (S_t - G_t)) is a nonnegative supermartingale
that starts at 1, with S_t the sum of the e_i and G_t that of the g_i. So is a mixture over stakes,
and by Ville's inequality it ever reaches 1 / a with probability at most a. It rises with S_t: all
that is not known, S_t, is at all times below the value at which the mixture is 1 / a, except with
probability a. With -l for l, it bounds S_t from below. The stakes are fixed, so what is bounded is
the plain sum, whatever happens in the stream.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Stakes as shares of the largest, and the shares of the capital in each. Large stakes are those
# that show soonest that a risk far below the bound is below it; a risk near it needs small ones.
STAKES = np.array([0.93, 0.85, 0.72, 0.58, 0.45, 0.33, 0.24, 0.17, 0.12, 0.08, 0.05, 0.03])
SHARES = np.array([0.16, 0.16, 0.14, 0.12, 0.10, 0.08, 0.06, 0.05, 0.04, 0.04, 0.03, 0.02])
STEPS = 200  # of Newton's method, at most; about ten are needed


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """What is known of the errors among `count` answers; all of it adds up over streams.

    count: the number of answers.
    labels: how many of them are labeled.
    expected: the sum of the estimated probabilities of an error.
    weighted: the sum of the unbiased estimates of each error.
    upper: sum of log X(l) for each stake, which bounds the errors from above.
    lower: likewise from below.
    """

    count: int
    labels: int
    expected: float
    weighted: float
    upper: Floats
    lower: Floats

    def __add__(self, other: "Sums") -> "Sums":
        names = (field.name for field in fields(self))
        return Sums(**{name: getattr(self, name) + getattr(other, name) for name in names})


def no_sums() -> Sums:
    """Of no answers."""
    upper, lower = np.zeros(len(STAKES)), np.zeros(len(STAKES))
    return Sums(count=0, labels=0, expected=0.0, weighted=0.0, upper=upper, lower=lower)


def running(start: Floats, terms: Floats) -> Floats:
    """Sums along the first axis from `start` on, one after the other, however terms are cut."""
    sums: Floats = np.cumsum(np.concatenate([np.asarray(start)[None], terms]), axis=0)
    return sums


def log_capital(logs: Floats, stakes: Floats, excess: Floats) -> Floats:
    """The logarithm of the mixture, if the errors exceed the expected ones by `excess`, (n,).

    logs: sums of log X for each stake, (n, K). stakes: l, or -l for bounds from below, (K,).
    """
    terms = logs + excess[:, None] * stakes + np.log(SHARES)
    top = terms.max(axis=1)
    result: Floats = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return result


def most_excess(logs: Floats, stakes: Floats, level: float) -> Floats:
    """The largest excess of the errors over the expected ones at which the mixture is 1 / level.

    The logarithm of the mixture is convex and rising, and one stake alone gives a point above the
    root, so Newton's steps fall to it; each of them is a valid bound. logs: (n, K). stakes: > 0.
    """
    goal = -math.log(level)
    excess: Floats = ((goal - np.log(SHARES) - logs) / stakes).min(axis=1)
    done = np.zeros(len(excess), np.bool_)  # by row, so that results do not depend on the others
    for _ in range(STEPS):
        terms = logs + excess[:, None] * stakes + np.log(SHARES)
        top = terms.max(axis=1)
        each = np.exp(terms - top[:, None])
        whole = each.sum(axis=1)
        step = (top + np.log(whole) - goal) * whole / (each * stakes).sum(axis=1)
        excess = np.where(done, excess, excess - np.maximum(step, 0.0))
        done |= step <= 1e-9 * (1 + np.abs(excess))
        if done.all():
            break
    return excess
