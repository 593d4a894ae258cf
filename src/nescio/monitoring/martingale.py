"""Ranks of scores as p-values, and bets against them: a martingale that starts at 1.

The rank of each score among all before it is a p-value (Vovk et al., 2022, section 8.2). Scores are
known by their bin, so counts by bin are all that is stored. Ties are broken by a uniform number:
where all scores are exchangeable, the p-values are independent and uniform.

A bet multiplies its stake by a function of the p-value that is 1 on average: a slope, a bow, or a
step at one end. Each of the K bets is placed again at every index t with a share
`(R(t) - R(t + 1)) / K` of the capital, where `R(t) = 1 / (1 + log(1 + t))` is what is not yet
placed. So the capital is a mixture over bets and over the index at which a drift begins, and a long
quiet time costs little: it never falls below R.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
BLOCK = 64  # scores that are compared with each other, pair by pair
EARLIER = np.tri(BLOCK, BLOCK, -1, dtype=np.bool_)  # row i: those before i


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


SLOPES = (0.3, 0.8, -0.3, -0.8)  # scores a little higher, lower
BOWS = (0.8, -0.8)  # scores further apart, closer together
STEPS = ((0.2, 0.2), (0.05, 0.2), (0.01, 0.1), (0.01, 0.6))  # width and stake: a few far out
COUNT = len(SLOPES) + len(BOWS) + 2 * len(STEPS)
# The lowest and highest product over a block, 0.2^64 and 60.4^64, are within the reach of float64.


def factors(p: Floats) -> Floats:
    """What each bet multiplies its stake by, (K, *p.shape)."""
    result = np.empty((COUNT, *p.shape))
    slope, bow = 1 - 2 * p, 6 * np.square(p - 0.5) - 0.5
    shapes = [(stake, slope) for stake in SLOPES] + [(stake, bow) for stake in BOWS]
    for row, (stake, shape) in zip(result, shapes, strict=False):
        np.multiply(shape, stake, out=row)
        row += 1
    ends = [(end, width, stake) for end in (p, 1 - p) for width, stake in STEPS]
    for row, (end, width, stake) in zip(result[len(shapes) :], ends, strict=True):
        row[...] = np.where(end < width, 1 - stake + stake / width, 1 - stake)
    return result


def reserve(index: NDArray[np.int64]) -> Floats:
    """The share of the capital that is not placed before this index."""
    return 1 / (1 + np.log1p(index.astype(np.float64)))


def grow(logs: Floats, start: int, p: Floats) -> tuple[Floats, Floats]:
    """The logarithm of the capital after each p-value, and of each bet's after whole blocks.

    logs: of the capital of each bet before `start`, (K,); `start` is a multiple of BLOCK.
    The second has shape (n // BLOCK + 1, K), the given ones first.
    """
    size, blocks = len(p), -(-len(p) // BLOCK)
    padded = np.full((blocks, BLOCK), 0.5)
    padded.reshape(-1)[:size] = p
    left = reserve(start + np.arange(blocks * BLOCK + 1))
    placed = ((left[:-1] - left[1:]) / COUNT).reshape(blocks, BLOCK)
    # Within a block, w_t = F_t (w_0 + sum of placed_s / F_{s-1}), F the product of the factors.
    product = np.cumprod(factors(padded), axis=2)
    added = np.empty_like(product)
    added[:, :, 0] = placed[:, 0]
    np.divide(placed[:, 1:], product[:, :, :-1], out=added[:, :, 1:])
    np.cumsum(added, axis=2, out=added)
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
