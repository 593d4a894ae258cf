"""Several out-distributions in turn."""

import operator
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nescio.data import bits
from nescio.data.outside.value import Outside
from nescio.errors import NescioError
from nescio.registry import outsides


@outsides.register
def mixture(outsides: Sequence[Outside], weights: Sequence[int] | None = None) -> Outside:
    """Several out-distributions in turn, in exact shares.

    Of k distributions, index i is number i // k of distribution i mod k. Whole numbers as
    `weights` give some more turns: (2, 1) takes two inputs of the first, one of the second, and so
    on. Where one of them ends, the mixture ends.
    """
    parts = tuple(outsides)
    if not parts:
        raise NescioError("a mixture needs at least one out-distribution, got none")
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise NescioError(
            "all parts of a mixture must have inputs of one shape, got "
            + ", ".join(f"{part.name!r} {part.shape}" for part in parts)
        )
    turns = _turns(weights, len(parts))
    starts = np.concatenate([[0], np.cumsum(turns)])
    ends = [
        part.size // turn * int(starts[-1]) + int(start) + part.size % turn
        for part, turn, start in zip(parts, turns, starts, strict=False)
        if part.size is not None
    ]
    shares = "" if weights is None else f", weights={turns}"
    return Outside(
        " + ".join(part.name for part in parts),
        parts[0].shape,
        min(ends, default=None),
        f"mixture({', '.join(part.description for part in parts)}{shares})",
        partial(_make, parts, starts),
    )


def _turns(weights: Sequence[int] | None, count: int) -> list[int]:
    if weights is None:
        return [1] * count
    try:
        turns = [operator.index(weight) for weight in weights]
    except TypeError:
        turns = []
    if len(turns) != count or min(turns) < 1:
        raise NescioError(
            f"`weights` must be {count} whole numbers, 1 or more each, got {weights!r}; "
            "(1, 3) is a quarter and three quarters"
        )
    return turns


def _make(
    parts: tuple[Outside, ...], starts: NDArray[np.int64], indices: bits.Indices
) -> NDArray[np.float32]:
    result = np.empty((len(indices), *parts[0].shape), np.float32)
    rounds, turn = np.divmod(indices, starts[-1])
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        own = np.flatnonzero((start <= turn) & (turn < end))
        if len(own):
            result[own] = part.make(rounds[own] * (end - start) + turn[own] - start)
    return result
