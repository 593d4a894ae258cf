"""OOD inputs from data at hand: another data set, stored inputs, scaled inputs, mixtures."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import Array, NescioError
from nescio.core.registry import ood_sources
from nescio.data.ood.source import OODSource, as_source, floats
from nescio.data.random_access import Indices

# Another data set as OOD source.


@ood_sources.register
def another(x: Array, name: str) -> OODSource:
    """Inputs of another data set, in its order.

    Whether its classes overlap with those of the training data is for you to know.
    """
    source = as_source(x, images=False)
    text = f"another({source.text}, {name!r})"
    return OODSource(
        name=name,
        shape=source.shape,
        size=len(source.values),
        description=text,
        make=partial(_rows, source.values),
    )


def _rows(values: NDArray[Any], indices: Indices) -> NDArray[np.float32]:
    return floats(values[indices])


# Several OOD sources in turn.


@ood_sources.register
def mixture(ood_sources: Sequence[OODSource], weights: Sequence[int] | None = None) -> OODSource:
    """Several OOD sources in turn, in exact shares.

    Of k distributions, index i is number i // k of distribution i mod k. Whole numbers as
    `weights` give some more turns: (2, 1) takes two inputs of the first, one of the second, and so
    on. Where one of them ends, the mixture ends.
    """
    parts = tuple(ood_sources)
    if not parts:
        raise NescioError("a mixture needs at least one OOD source, got none")
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
    return OODSource(
        name=" + ".join(part.name for part in parts),
        shape=parts[0].shape,
        size=min(ends, default=None),
        description=f"mixture({', '.join(part.description for part in parts)}{shares})",
        make=partial(_make_mixture, parts, starts),
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


def _make_mixture(
    parts: tuple[OODSource, ...], starts: NDArray[np.int64], indices: Indices
) -> NDArray[np.float32]:
    result = np.empty((len(indices), *parts[0].shape), np.float32)
    rounds, turn = np.divmod(indices, starts[-1])
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        rows = np.flatnonzero((start <= turn) & (turn < end))
        if len(rows):
            result[rows] = part.make(rounds[rows] * (end - start) + turn[rows] - start)
    return result


# Another OOD source times a number (Hein et al., 2019, table 2).


@ood_sources.register
def scaled(ood: OODSource, factor: float) -> OODSource:
    """Inputs of another OOD source times `factor`; they leave its range on purpose."""
    if not abs(factor) <= float(np.finfo(np.float32).max):
        raise NescioError(f"`factor` must be finite in float32, got {factor}")
    return OODSource(
        name=f"{factor:g} * {ood.name}",
        shape=ood.shape,
        size=ood.size,
        description=f"scaled({ood.description}, {float(factor)})",
        make=partial(_make_scaled, ood, np.float32(factor)),
    )


def _make_scaled(ood: OODSource, factor: np.float32, indices: Indices) -> NDArray[np.float32]:
    return ood.make(indices) * factor


# Inputs of an OOD source made once and stored as bytes, as in image files.

PIECE = 4096  # made at a time


@ood_sources.register
def stored(ood: OODSource, count: int, *, start: int = 0) -> OODSource:
    """The first `count` images of another OOD source, made once and rounded to bytes.

    For training, where an image comes back in every epoch. One byte per pixel stays in memory.
    """
    if len(ood.shape) != 3:
        raise NescioError(f"only images (C, H, W) are stored as bytes, got {ood.shape}")
    if count < 1 or start < 0:
        raise NescioError(f"expected a count of 1 or more from 0 or more, got {count} from {start}")
    values = np.empty((count, *ood.shape), np.uint8)
    for first in range(0, count, PIECE):
        last = min(first + PIECE, count)
        made = ood(torch.arange(start + first, start + last)).numpy()
        if made.min() < 0 or made.max() > 1:
            raise NescioError(f"{ood.name!r} leaves the range [0, 1] that bytes can hold")
        values[first:last] = np.rint(255 * made)
    text = f"stored({ood.description}, {count=}, {start=})"
    return OODSource(
        name=ood.name,
        shape=ood.shape,
        size=count,
        description=text,
        make=partial(_rows, values),
    )
