"""The first factor along a ray at which a network is sure of itself, exactly.

Confidence is not monotone along a ray: it has to be followed from the start. Parts of the ray on
which a bound keeps it below the level are passed over. Where the bound does not, the steps become
shorter, until few units bend on them; these are cut into their linear regions and solved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, as_tensor
from nescio.geometry.rays.breakpoints import regions_on, room
from nescio.geometry.rays.far_field import far_field_of
from nescio.geometry.rays.levels import FAR, Spans, first_reach
from nescio.geometry.tracing.instances import (
    Instance,
    Source,
    as_number,
    as_rays,
    blocks,
    instances,
    together,
)

FEW = 6  # breakpoints on a span that are worth finding
SHORTEST = 1e-12  # a span so short, beside t or the first step, is cut whatever bends on it


@dataclass(frozen=True, eq=False)
class FirstConfident:
    """Where each ray first reaches the level of confidence.

    Of a bare network, and of a mixture, the shapes are `(N,)`; of a model's members `(M, N)`.

    factor: the smallest t >= start; infinite where the level is never reached.
    label: the class predicted there; -1 where the level is never reached.
    limit: the confidence as t grows without end.
    """

    factor: Tensor
    label: Tensor
    limit: Tensor


def first_confident(
    source: Source,
    origin: Any,
    direction: Any,
    *,
    confidence: float = 0.999,
    start: Any = 1.0,
    pooled: bool = False,
) -> FirstConfident:
    """The smallest t >= start at which `origin + t * direction` is classified with `confidence`.

    The result is exact up to float64 rounding.

    source: a network, a model or a predictor; each member is analyzed by itself.
    origin, direction: origins and directions of the rays, `(N, *features)`; a single one serves all
      rays.
    confidence: level of confidence to reach, between 0 and 1.
    start: factor to begin at, a number or one per ray `(N,)`.
    pooled: whether to ask for the mixture of all members, instead of each member by itself.
    """
    begin, way = as_rays(origin, direction)
    if not 0 < as_number(confidence, "confidence") < 1:
        raise NescioError(f"confidence must lie between 0 and 1, both excluded, got {confidence}")
    starts = _starts(start, len(begin))
    nets = instances(source)
    fields = [far_field_of(net, begin, way) for net in nets]
    slope, intercept, limit, radius = (
        torch.stack([getattr(field, name) for field in fields])
        for name in ("slope", "intercept", "limit", "radius")
    )
    groups = [list(range(len(nets)))] if pooled else [[m] for m in range(len(nets))]
    rooms = [room(net, begin, way) for net in nets]
    found = []
    for group in groups:
        search = _Search(
            nets=[nets[m] for m in group],
            origin=begin,
            direction=way,
            confidence=float(confidence),
            limit=min(rooms[m] for m in group),
        )
        last = slope[group].transpose(0, 1), intercept[group].transpose(0, 1)
        first = search.first(starts, radius[group].amax(0), last)
        found.append(FirstConfident(*first, limit[group].mean(0).amax(1)))
    return found[0] if pooled else together(source, found)


def _starts(start: Any, rays: int) -> Tensor:
    """A factor for each ray."""
    given = as_tensor(start, "start").double().cpu()
    if given.shape not in ((), (rays,)):
        raise NescioError(
            f"start must be a factor, or one for each of {rays} rays, got {tuple(given.shape)}"
        )
    if not ((given >= 0) & (given < FAR)).all():
        raise NescioError(f"start must be a factor of at least 0, and finite, got {start}")
    return given.expand(rays)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Search:
    """Rays along which a mixture of networks is followed up to a level of confidence."""

    nets: Sequence[Instance]
    origin: Tensor  # (N, *features)
    direction: Tensor
    confidence: float
    limit: int  # intervals in one block

    def __getitem__(self, rows: Tensor | slice) -> "_Search":
        return replace(self, origin=self.origin[rows], direction=self.direction[rows])

    def first(
        self, start: Tensor, radius: Tensor, last: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Factors and classes: up to the last breakpoint step by step, beyond it in one."""
        end = torch.maximum(radius.clamp_max(FAR), start)
        factor, label = self._march(start, end)
        open_ = factor.isinf().nonzero()[:, 0]
        slope, intercept = (x[open_] for x in last)
        beyond = torch.full((len(open_),), torch.inf, dtype=torch.float64)
        factor[open_] = first_reach(slope, intercept, end[open_], beyond, self.confidence)
        hit = factor[open_].isfinite()
        label[open_[hit]] = _class_at(slope[hit], intercept[hit], factor[open_[hit]])
        return factor, label

    def _march(self, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """The first factor and class on `[start, end]`; each ray advances by its own step."""
        t = start.clone()
        step = torch.where(t > 0, 0.25 * t, 0.01 * end)
        shortest = SHORTEST * step
        factor = torch.full_like(end, torch.inf)
        label = torch.full_like(end, -1, dtype=torch.long)
        active = (t < end).nonzero()[:, 0]
        while len(active):
            lo, stop = t[active], end[active]
            hi = torch.minimum(torch.maximum(lo + step[active], lo.nextafter(stop)), stop)
            safe, bends = self[active]._safe(lo, hi)
            passed = safe >= hi
            short = hi - lo <= torch.maximum(SHORTEST * hi, shortest[active])
            cut = ~passed & (short | (bends <= FEW * len(self.nets)))
            if cut.any():
                where = active[cut]
                factor[where], label[where] = self[where]._exact(safe[cut], hi[cut])
            t[active] = torch.where(cut, hi, safe)
            share = (safe - lo) / (hi - lo)
            shorter = torch.where(share > 0.5, 1.0, torch.where(share > 0.1, 0.5, 0.25))
            step[active] = (hi - lo) * torch.where(passed | cut, 2.0, shorter)
            active = active[(t[active] < stop) & factor[active].isinf()]
        return factor, label

    def _safe(self, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        """How far along each span the level is surely not reached; how many units bend on it."""
        safe, bends = [], []
        for rows in blocks(len(lo), max(1, self.limit // 4)):
            spans = [Spans(lo[rows], hi[rows]) for _ in self.nets]
            parts = [
                net.run(span, span.start(self.origin[rows], self.direction[rows]))
                for net, span in zip(self.nets, spans, strict=True)
            ]
            slope, center = torch.stack([part.coefs for part in parts], 2)  # (R, M, C)
            error = torch.stack([part.error for part in parts], 1)
            ends = torch.ones_like(lo[rows])
            s = first_reach(slope, center, -ends, ends, self.confidence, error) - 2.0**-40
            at = torch.maximum(spans[0].middle + spans[0].half * s, lo[rows])
            safe.append(torch.where(s.isinf(), hi[rows], at))
            bends.append(torch.stack([span.unstable for span in spans]).sum(0))
        return torch.cat(safe), torch.cat(bends)

    def _exact(self, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        """First factors and classes on intervals of rays, by their linear regions."""
        rows, rays = torch.arange(len(lo)), (self.origin, self.direction)
        found = [regions_on(net, rays, rows, lo, hi, limit=self.limit) for net in self.nets]
        row, begin, slope, intercept = _common(found)
        finish = torch.cat([begin[1:], hi[-1:]])
        last = torch.cat([row[1:] != row[:-1], torch.ones(1, dtype=torch.bool)])
        finish[last] = hi
        reached = first_reach(slope, intercept, begin, finish, self.confidence)
        factor = torch.full_like(lo, torch.inf).scatter_reduce(0, row, reached, "amin")
        label = torch.full_like(row[: len(lo)], -1)
        hit = (reached.isfinite() & (reached == factor[row])).nonzero()[:, 0].flip(0)
        label[row[hit]] = _class_at(slope[hit], intercept[hit], reached[hit])
        return factor, label


def _class_at(slope: Tensor, intercept: Tensor, t: Tensor) -> Tensor:
    """The most probable class of mixtures with affine logits `(S, M, C)`."""
    logits = slope * t[:, None, None] + intercept
    return (logits.softmax(2).mean(1) if logits.shape[1] > 1 else logits[:, 0]).argmax(1)


def _common(segments: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Linear regions of all members at once: rows, starts, slopes and intercepts `(S, M, C)`."""
    row = torch.cat([p[0] for p in segments])
    begin = torch.cat([p[1] for p in segments])
    member = torch.cat([torch.full_like(p[0], m) for m, p in enumerate(segments)])
    order = begin.argsort(stable=True)
    order = order[row[order].argsort(stable=True)]
    row, begin, member = row[order], begin[order], member[order]
    last = torch.ones(len(row), dtype=torch.bool)  # of those that start at one place
    last[:-1] = (row[1:] != row[:-1]) | (begin[1:] != begin[:-1])
    slopes, intercepts = [], []
    for m, (_, _, _, slope, intercept) in enumerate(segments):
        place = ((member == m).cumsum(0) - 1)[last]
        slopes.append(slope[place])
        intercepts.append(intercept[place])
    return row[last], begin[last], torch.stack(slopes, 1), torch.stack(intercepts, 1)
