"""Percentiles of more numbers than one wants to sort: counted by their bits, two passes."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.detectors.kit.last_layer import parts

HALF = 16  # bits of a pass


def percentile(values: Tensor, percent: float) -> Tensor:
    """The percentile of all numbers of `(N, F)`, linear between two, as numpy's; float32.

    Exact for float32 and in constant memory: the first pass counts the upper halves of the bits,
    the second the lower halves of those that share the upper half of the one wanted.
    """
    if not 0 <= percent <= 100:
        raise NescioError(f"a percentile is from 0 to 100, got {percent}")
    place = percent / 100 * (values.numel() - 1)
    low, high = math.floor(place), math.ceil(place)
    upper = _counts(_upper(keys) for keys in _keys(values))
    first = _value(values, upper, low)
    last = first if high == low else _value(values, upper, high)
    return torch.tensor(first + (last - first) * (place - low), device=values.device)


def _keys(values: Tensor) -> Iterator[Tensor]:
    """Integers in the order of the numbers, block by block."""
    for _, block in parts(values):
        bits = (block.float() + 0.0).contiguous().view(torch.int32).flatten()  # -0 is 0
        yield bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _upper(keys: Tensor) -> Tensor:
    return (keys >> HALF) + (1 << (HALF - 1))


def _counts(numbers: Iterator[Tensor]) -> Tensor:
    total = next(numbers).bincount(minlength=1 << HALF)
    for block in numbers:
        total += block.bincount(minlength=1 << HALF)
    return total


def _value(values: Tensor, upper: Tensor, rank: int) -> float:
    """The number of that rank, from 0."""
    ends = upper.cumsum(0)
    own = int(torch.searchsorted(ends, torch.tensor(rank, device=ends.device), right=True))
    in_dist = rank - int(ends[own] - upper[own])
    mask = (1 << HALF) - 1
    counts = _counts(keys[_upper(keys) == own] & mask for keys in _keys(values))
    target = torch.tensor(in_dist, device=ends.device)
    lower = int(torch.searchsorted(counts.cumsum(0), target, right=True))
    key = torch.tensor(((own - (1 << (HALF - 1))) << HALF) | lower, dtype=torch.int32)
    return float((key ^ ((key >> 31) & 0x7FFFFFFF)).view(torch.float32))
