"""Exact finite-sample limits of calibration scores, one for every cell, ties randomized on request.

With n calibration scores a new score is accepted up to the ceil((n + 1)(1 - a))-th smallest of
them: the same as a conformal p-value above a. With randomization it is accepted when its smoothed
p-value, (#{above it} + U (#{equal to it} + 1)) / (n + 1), exceeds a, which has probability 1 - a
exactly (Vovk, Gammerman and Shafer, 2005, section 2.2). Only a few scores decide that, and they are
stored.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, as_tensor
from nescio.data import random_access
from nescio.data.random_access import check_start

TOLERANCE = 1e-4  # of a score, or of 1 where it is smaller: rounding moves it by less
LARGE = 1e300  # stands for what is infinite
CALIBRATION, CALLS = 101, 102  # streams of a seed: a new sample shares no draw with an old one

Floats = NDArray[np.float64]
State = Mapping[str, Tensor]  # what was fitted, by name


def allowed(samples: int, miscoverage: float) -> int:
    """How many of the largest of n scores lie at or above the limit; 0: there is no limit.

    The share is read as the decimal that was written, so that 0.29 of 100 is 29.
    """
    return int(_exact(miscoverage) * (samples + 1))


def needed(miscoverage: float) -> int:
    """The smallest number of calibration samples that gives a finite limit."""
    return math.ceil(1 / _exact(miscoverage)) - 1


def coverage_law(samples: int, miscoverage: float) -> tuple[int, int]:
    """(a, b): given the calibration samples, coverage follows Beta(a, b) if scores do not tie."""
    over = allowed(samples, miscoverage)
    return samples + 1 - over, over


def rounding(scores: Tensor) -> Tensor:
    """How far rounding may move scores: a network's last bits depend on the size of the batch."""
    return TOLERANCE * scores.abs().clamp(1.0, LARGE)


def check_miscoverage(miscoverage: float) -> float:
    """The share that may be missed, between 0 and 1."""
    if isinstance(miscoverage, bool) or not 0 < miscoverage < 1:
        raise NescioError(
            f"miscoverage must lie between 0 and 1, got {miscoverage!r}; 0.1 guarantees 90 %"
        )
    return float(miscoverage)


def fit(scores: Floats, cells: NDArray[np.int64], count: int, miscoverage: float) -> State:
    """The limits of `count` cells, from scores (n,) and the cell of each."""
    order = np.lexsort((scores, cells))
    scores, cells = scores[order], cells[order]
    sizes = np.bincount(cells, minlength=count)
    ends = np.cumsum(sizes)
    over = np.array([allowed(size, miscoverage) for size in sizes.tolist()])
    share = [float(_exact(miscoverage) * (size + 1)) for size in sizes.tolist()]  # of n + 1
    open_ended = over == 0
    at = np.where(open_ended, 0, ends - over)
    below = np.where(open_ended | (over == sizes), 0, ends - over - 1)
    high = np.where(open_ended, np.inf, scores[at])
    low = np.where(open_ended, np.inf, np.where(over == sizes, -np.inf, scores[below]))
    steps = np.stack(
        [
            (share - _count(scores > low[cells], cells, count))
            / (_count(scores == low[cells], cells, count) + 1),
            share - over,
            (share - _count(scores > high[cells], cells, count))
            / (_count(scores == high[cells], cells, count) + 1),
        ]
    )
    steps[:, open_ended] = 0.0
    arrays = {"low": low, "high": high, "steps": steps, "sizes": sizes}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _count(which: NDArray[np.bool_], cells: NDArray[np.int64], count: int) -> Floats:
    result: Floats = np.bincount(cells, weights=which, minlength=count).astype(np.float64)
    return result


def limits(state: State, cells: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """The largest score that is accepted in each of `cells`, and whether that score itself is.

    u: uniform numbers of the shape of `cells`, or None: no randomization.
    """
    high = state["high"].to(cells.device)[cells]
    if u is None:
        return high, torch.ones_like(high, dtype=torch.bool)
    low = state["low"].to(cells.device)[cells]
    first, second, third = state["steps"].to(cells.device)[:, cells]
    closed = ((u > first) & (u <= second)) | (u > torch.maximum(second, third))
    return torch.where((u <= first) | (u <= second), low, high), closed


def uniforms(seed: int, stream: int, first: int, count: int) -> Tensor:
    """Uniform numbers in (0, 1] of `count` samples, each a function of its own number."""
    check_start(seed, first)
    indices = np.arange(first, first + count)
    return torch.from_numpy(1.0 - random_access.rows(seed, stream, indices, 1, np.float64)[:, 0])


def cell_numbers(groups: Tensor, known: Tensor) -> Tensor:
    """The index of each group in the sorted `known` ones; an unseen group is refused."""
    known = known.to(groups.device)
    index = torch.searchsorted(known, groups).clamp(max=len(known) - 1)
    unseen = groups[known[index] != groups].unique()
    if len(unseen):
        raise NescioError(
            f"groups {_some(unseen.tolist())} were not among the calibration samples, so nothing "
            f"is known about them; known groups: {_some(known.tolist())}"
        )
    return index


def check_groups(groups: Any, samples: int) -> Tensor:
    """Group numbers (N,) as int64."""
    result = as_tensor(groups, "groups")
    if result.is_floating_point() or result.is_complex() or tuple(result.shape) != (samples,):
        raise NescioError(
            f"groups must be whole numbers of shape ({samples},), one per sample, got "
            f"{result.dtype} of shape {tuple(result.shape)}"
        )
    return result.long()


def _some(values: list[int]) -> str:
    return ", ".join(map(str, values[:10])) + (", ..." if len(values) > 10 else "")


def _exact(miscoverage: float) -> Fraction:
    return Fraction(repr(float(miscoverage)))
