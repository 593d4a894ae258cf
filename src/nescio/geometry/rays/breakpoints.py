"""Every breakpoint of a network on a ray, and its affine logits in between."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.rays.at_infinity import widest_layer
from nescio.geometry.rays.ray_intervals import Intervals
from nescio.geometry.regions.cells import limit_for, sweep
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_number,
    as_rays,
    blocks,
    instances,
)
from nescio.models import Predictor

BYTES = 64 << 20  # of the maps of the widest layer of one block of intervals


@dataclass(frozen=True, eq=False, kw_only=True)
class Rays:
    """Logits along N rays: on region s they are `slope[s] * t + intercept[s]` from `starts[s]` on.

    The regions of ray i are `offsets[i] : offsets[i + 1]`; the first starts at 0.
    """

    offsets: Tensor  # (N + 1,)
    starts: Tensor  # (S,)
    slope: Tensor  # (S, C)
    intercept: Tensor  # (S, C)
    stop: float = math.inf

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def regions(self, i: int) -> slice:
        """Where the regions of ray i are in the flat arrays."""
        if not -len(self) <= i < len(self):
            raise NescioError(f"ray {i} of {len(self)}; rays are counted from 0")
        i = i % len(self)
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def breakpoints(self, i: int) -> Tensor:
        """The factors at which the logits of ray i bend, in order."""
        return self.starts[self.regions(i)][1:]

    def logits(self, i: int, t: Any) -> Tensor:
        """Logits `(..., C)` of ray i at factors t of any shape."""
        t = torch.as_tensor(t, dtype=torch.float64)
        starts = self.starts[self.regions(i)]
        self._check(t)
        index = torch.searchsorted(starts, t.contiguous(), right=True) - 1 + self.regions(i).start
        return torch.addcmul(self.intercept[index], self.slope[index], t[..., None])

    def at(self, t: Any) -> Tensor:
        """Logits `(N, C)` of all rays at a factor or one a ray, `(N, T, C)` at `(N, T)` factors."""
        t = torch.as_tensor(t, dtype=torch.float64)
        t = t.expand(len(self)) if t.ndim == 0 else t
        if t.ndim > 2 or len(t) != len(self):
            raise NescioError(
                f"factors must be one number, (rays,) or (rays, T) for {len(self)} rays, "
                f"got {tuple(t.shape)}"
            )
        self._check(t)
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        if t.ndim == 2:
            first, last = first[:, None].expand(t.shape), last[:, None].expand(t.shape)
        while (first < last).any():  # bisection for the last start that is not beyond t
            middle = (first + last + 1) // 2
            right = self.starts[middle] <= t
            first, last = torch.where(right, middle, first), torch.where(right, last, middle - 1)
        return torch.addcmul(self.intercept[first], self.slope[first], t[..., None])

    def _check(self, t: Tensor) -> None:
        if not ((t >= 0) & (t <= self.stop)).all():
            raise NescioError(f"factors must lie between 0 and {self.stop:g}, where the rays end")


@overload
def ray(source: nn.Module, origin: Any, direction: Any, *, stop: float | None = None) -> Rays: ...


@overload
def ray(
    source: Predictor, origin: Any, direction: Any, *, stop: float | None = None
) -> tuple[Rays, ...]: ...


def ray(
    source: Source, origin: Any, direction: Any, *, stop: float | None = None
) -> Rays | tuple[Rays, ...]:
    """All breakpoints and affine logits along `origin + t * direction`, for t from 0 to `stop`.

    source: a network, or a model or predictor of nescio, which gives one result per member.
    """
    start, way = as_rays(origin, direction)
    stop = math.inf if stop is None else as_number(stop, "stop")
    if not stop > 0:
        raise NescioError(f"stop must be above 0, got {stop}; rays start at 0")
    found = tuple(_of_one(instance, start, way, float(stop)) for instance in instances(source))
    return found[0] if isinstance(source, nn.Module) else found


def _of_one(instance: Instance, origin: Tensor, direction: Tensor, stop: float) -> Rays:
    count = len(origin)
    rows = torch.arange(count)
    lo = torch.zeros(count, dtype=torch.float64)
    index, starts, _, slope, intercept = regions_on(
        instance, origin, direction, rows, lo, lo + stop, limit=room(instance, origin, direction)
    )
    offsets = torch.zeros(count + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(index, minlength=count).cumsum(0)
    return Rays(offsets=offsets, starts=starts, slope=slope, intercept=intercept, stop=stop)


def room(instance: Instance, origin: Tensor, direction: Tensor) -> int:
    """How many intervals one block may have: by the widest layer of a trial pass."""
    return limit_for(widest_layer(instance, origin[:1], direction[:1]), 2, BYTES)


def regions_on(
    instance: Instance,
    origin: Tensor,
    direction: Tensor,
    index: Tensor,
    lo: Tensor,
    hi: Tensor,
    *,
    limit: int,
) -> tuple[Tensor, ...]:
    """Linear regions on intervals of rays: interval, start, end, slope and intercept, in order.

    index: (R,) the ray of each interval.
    """
    found = list(_blocks(instance, origin[index], direction[index], lo, hi, limit))
    row, starts, ends, slope, intercept = (torch.cat([f[i] for f in found]) for i in range(5))
    order = starts.argsort()
    order = order[row[order].argsort(stable=True)]
    return row[order], starts[order], ends[order], slope[order], intercept[order]


def _blocks(
    instance: Instance, origin: Tensor, direction: Tensor, lo: Tensor, hi: Tensor, limit: int
) -> Iterator[tuple[Tensor, ...]]:
    for rows in blocks(len(lo), limit):
        ray = torch.arange(rows.start, rows.stop)
        cells = Intervals(origin, direction, ray, lo[rows], hi[rows], limit=limit)
        for block, logits in sweep(instance, cells):
            yield block.ray, block.lo, block.hi, *logits.coefs
