"""Ranks of scores as p-values, and bets against them: a martingale that starts at 1.

The rank of each score among all before it is a p-value (Vovk et al., 2022, section 8.2). Scores are
known by their bin, so counts by bin are all that is stored. Ties are broken by a uniform number:
where all scores are exchangeable, the p-values are independent and uniform.

A bet multiplies its stake by a function of the p-value that is 1 on average. With z the normal
quantile of 1 - p, the bets are the densities of a normal z that has moved or whose spread has
changed, over that of a standard normal one, and steps at small p for a few scores far out. Each bet
is placed again at every index t with its share of `R(t) - R(t + 1)` of the capital, where
`R(t) = 0.8 (1 + t / 100)^-0.3` is what is not yet placed; a fifth is placed at once. So the capital
is a mixture over bets and over the index at which a drift begins, and a long quiet time costs
little: it never falls below R.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
BLOCK = 64  # scores that are compared with each other, pair by pair
EARLIER = np.tri(BLOCK, BLOCK, -1, dtype=np.bool_)  # row i: those before i


def tie_numbers(key: int, trail: int, start: int, bins: NDArray[Any]) -> tuple[Floats, Bits]:
    """A uniform number for each score from `start` on, and the trail before each and after all.

    It is a function of the key, the index and all bins before: two streams that differ share no
    numbers from there on, so that no series of numbers is unlucky for every stream. trail: a digest
    of the bins before `start`.
    """
    index = np.arange(start, start + len(bins), dtype=np.uint64)
    after = np.cumsum(_mixed(_mixed(index) + bins.astype(np.uint64)), dtype=np.uint64)
    trails = np.append(np.uint64(0), after) + np.array([trail], np.uint64)
    bits = _mixed(_mixed(trails[:-1] + np.array([key], np.uint64)) + index)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53, trails


def _mixed(bits: Bits) -> Bits:
    """Bits that look random, one to one (Steele et al., 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def p_values(counts: Counts, bins: NDArray[Any], uniform: Floats) -> tuple[Floats, Counts]:
    """p = (#{greater} + u #{equal, itself too}) / #{all so far}, and the counts after each block.

    counts: scores by bin before the first, (B,). bins: of each score, in order. uniform: in [0, 1).
    The counts after whole blocks have shape (n // BLOCK + 1, B), the given ones first.
    """
    size, kinds = len(bins), len(counts)
    blocks = -(-size // BLOCK)
    narrow = np.int16 if kinds < 1 << 15 else np.int64  # fewer bytes are compared sooner
    padded: NDArray[Any] = np.zeros(blocks * BLOCK, narrow)
    padded[:size] = bins
    rows = padded.reshape(blocks, BLOCK)
    greater, equal = _within(rows)
    by_block = np.zeros((blocks + 1, kinds), np.int64)
    by_block[0] = counts
    indices = np.arange(size) // BLOCK * kinds + padded[:size].astype(np.int64)
    by_block[1:] = np.bincount(indices, minlength=blocks * kinds).reshape(blocks, kinds)
    np.cumsum(by_block, axis=0, out=by_block)
    above = by_block[:-1, ::-1].cumsum(1)[:, ::-1] - by_block[:-1]  # in greater bins, (blocks, B)
    at = np.arange(blocks)[:, None], rows
    greater = (greater + above[at]).reshape(-1)[:size]
    equal = (equal + by_block[at] + 1).reshape(-1)[:size]
    total = int(counts.sum()) + 1 + np.arange(size)
    return (greater + uniform * equal) / total, by_block[: size // BLOCK + 1]


def _within(rows: NDArray[Any]) -> tuple[Counts, Counts]:
    """How many earlier ones of the same block are greater, and how many equal."""
    later, earlier = rows[:, :, None], rows[:, None, :]
    greater = np.count_nonzero((earlier > later) & EARLIER, axis=2)
    equal = np.count_nonzero((earlier == later) & EARLIER, axis=2)
    return greater.astype(np.int64), equal.astype(np.int64)


REACH = 4.75  # of z: further out is no more, so that products over a block stay within float64
MOVES = (0.25, 0.5, 1.0)  # of the mean of z, in its standard deviations
SPREADS = (1.3, 0.75)  # of z
STEPS = ((0.01, 0.1), (0.01, 0.6))  # width in p and stake: a few scores far out
# Higher scores are what a monitor is for, small moves are those that take long.
SHARES = np.array([
    0.24, 0.20, 0.14,  # higher
    0.08, 0.05, 0.04,  # lower
    0.04, 0.08,  # further apart, closer together
    0.08, 0.05,  # far out
])  # fmt: skip
COUNT = len(SHARES)


def factors(p: Floats) -> Floats:
    """What each bet multiplies its stake by, (K, *p.shape)."""
    from scipy.special import ndtri

    result = np.empty((COUNT, *p.shape))
    z = np.clip(ndtri(p), -REACH, REACH)
    np.negative(z, out=z)
    square, means = np.square(z), []
    for row, move in zip(result, (*MOVES, *(-move for move in MOVES)), strict=False):
        np.multiply(z, move, out=row)
        means.append(_mean_of_move(move))
    for row, spread in zip(result[len(means) :], SPREADS, strict=False):
        np.multiply(square, (1 - spread**-2) / 2, out=row)
        means.append(_mean_of_spread(spread))
    np.exp(result[: len(means)], out=result[: len(means)])
    for row, mean in zip(result, means, strict=False):
        row /= mean
    for row, (width, stake) in zip(result[len(means) :], STEPS, strict=True):
        row[...] = np.where(p < width, 1 - stake + stake / width, 1 - stake)
    return result


def _mean_of_move(move: float) -> float:
    """Of exp(move z), z standard normal and cut at the reach: the bets are fair."""
    cdf = NormalDist().cdf
    inner = math.exp(move**2 / 2) * (cdf(REACH - move) - cdf(-REACH - move))
    return inner + 2 * cdf(-REACH) * math.cosh(move * REACH)


def _mean_of_spread(spread: float) -> float:
    """Of exp((1 - spread^-2) z^2 / 2), likewise."""
    cdf = NormalDist().cdf
    inner = spread * (1 - 2 * cdf(-REACH / spread))
    return inner + 2 * cdf(-REACH) * math.exp((1 - spread**-2) * REACH**2 / 2)


def reserve(index: NDArray[np.int64]) -> Floats:
    """The share of the capital that is not placed before this index; all of it up to 0."""
    later = 0.8 * (1 + np.maximum(index, 0) / 100) ** -0.3
    return np.where(index > 0, later, 1.0)


def grow(logs: Floats, start: int, p: Floats) -> tuple[Floats, Floats]:
    """The logarithm of the capital after each p-value, and of each bet's after whole blocks.

    logs: of the capital of each bet before `start`, (K,). start: the index of the first p-value;
    below 0 nothing is placed.
    The second has shape (n // BLOCK + 1, K), the given ones first.
    """
    size, blocks = len(p), -(-len(p) // BLOCK)
    padded = np.full((blocks, BLOCK), 0.5)
    padded.reshape(-1)[:size] = p
    left = reserve(start + np.arange(blocks * BLOCK + 1))
    placed = (left[:-1] - left[1:]).reshape(blocks, BLOCK) * SHARES[:, None, None]
    # Within a block, w_t = F_t (w_0 + sum of placed_s / F_{s-1}), F the product of the factors.
    product = np.cumprod(factors(padded), axis=2)
    added = np.empty_like(product)
    added[:, :, 0] = placed[:, :, 0]
    np.divide(placed[:, :, 1:], product[:, :, :-1], out=added[:, :, 1:])
    np.cumsum(added, axis=2, out=added)
    with np.errstate(divide="ignore"):  # nothing was placed: the logarithm is -inf
        before = _by_block(logs, np.log(product[:, :, -1]), np.log(added[:, :, -1]))
    scale = np.maximum(before[:-1].max(1), 0.0)[:, None]  # so that nothing overflows
    added *= np.exp(-scale)
    added += np.exp(before[:-1] - scale).T[:, :, None]
    added *= product
    total = added.sum(0) + np.exp(-scale) * left[1:].reshape(blocks, BLOCK)
    capital: Floats = np.log(total) + scale
    return capital.reshape(-1)[:size], before[: size // BLOCK + 1]


def _by_block(logs: Floats, grown: Floats, added: Floats) -> Floats:
    """The logarithms of the capital of the bets before each block and after the last."""
    result = np.empty((grown.shape[1] + 1, len(logs)))
    result[0] = logs
    for block, (factor, new) in enumerate(zip(grown.T, added.T, strict=True)):
        np.logaddexp(result[block], new, out=result[block + 1])
        result[block + 1] += factor
    return result
