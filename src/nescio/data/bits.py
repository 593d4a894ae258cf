"""Random numbers by place: row i of a stream is a function of (seed, stream, i) only.

The bits come from Philox, a counter-based generator, so row i is found without its predecessors
and is the same in every pass, batch and worker.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

# Streams of a seed, so that a noise image and a permutation share no bits.
NOISE, ORDER, WIDTH, SOURCE, CONTRAST, PATCH, PATCH_SOURCE, OVERLAY = range(8)
SHAPES, STROKES, SHUFFLE = range(8, 11)

Indices = NDArray[np.int64]

CYCLE = 1 << 256  # steps of the counter
STEP_BYTES = 32  # bits of one step
INDEX_BITS = np.uint64(11)  # of a 64-bit sort key; the other 53 are random
LONGEST = 1 << 11


def rows(
    seed: int,
    stream: int,
    indices: Indices,
    size: int,
    kind: type[np.float32] | type[np.float64] | type[np.uint64],
) -> NDArray[Any]:
    """Rows (n, size) of a stream: floats uniform in [0, 1), or 64 random bits each."""
    result = np.empty((len(indices), size), kind)
    bits = Philox(SeedSequence(seed, spawn_key=(stream,)))
    draw = Generator(bits)
    each = STEP_BYTES // result.itemsize
    place = 0
    for first, last in _runs(indices):
        step, skip = divmod(int(indices[first]) * size, each)
        count = skip + (last - first) * size
        bits.advance((step - place) % CYCLE)
        values: NDArray[Any]
        if kind is np.uint64:
            values = bits.random_raw(count)
        elif kind is np.float32:
            values = draw.random(count, dtype=np.float32)
        else:
            values = draw.random(count)
        place = step + -(-count // each)
        result[first:last] = values[skip:].reshape(-1, size)
    return result


def orders(seed: int, stream: int, indices: Indices, size: int) -> NDArray[np.int64]:
    """Permutations (n, size) of 0..size - 1: the order of 53-bit keys; equal keys keep theirs.

    Short rows carry the index in the low bits of the key: sorting such keys is far faster than
    `argsort`, and the result is the same.
    """
    keys = rows(seed, stream, indices, size, np.uint64)
    if size > LONGEST:
        keys >>= INDEX_BITS
        return np.argsort(keys, axis=1, kind="stable").astype(np.int64, copy=False)
    low = np.uint64(LONGEST - 1)
    keys &= ~low
    keys |= np.arange(size, dtype=np.uint64)
    keys.sort(axis=1)
    keys &= low
    return keys.view(np.int64)


def _runs(indices: Indices) -> Iterator[tuple[int, int]]:
    """Stretches of indices that follow one another, as places in the array."""
    if len(indices) == 0:
        return
    breaks = (np.flatnonzero(np.diff(indices) != 1) + 1).tolist()
    yield from zip([0, *breaks], [*breaks, len(indices)], strict=True)
