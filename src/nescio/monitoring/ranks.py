"""The rank of each score among all before it, as a p-value (Vovk et al., 2022, section 8.2).

Scores are known by their bin, so counts by bin are all that is stored. Ties are broken by a uniform
number: where all scores are exchangeable, the p-values are independent and uniform.
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
