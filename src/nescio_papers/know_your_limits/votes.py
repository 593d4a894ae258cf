"""How the members of an ensemble of two classes split a box between them, as exact areas.

The boundary of each member is a set of segments: the line where its two logits are equal, piece by
piece. Between the ends and crossings of all segments lie upright strips in which no two segments
meet. There the votes change from segment to segment, and every area is that of a trapezoid.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nescio.geometry.regions.regions import regions
from nescio.geometry.regions.regions_value import Box, Regions
from nescio.models.model import Model
from nescio_papers.know_your_limits.surfaces import Floats

ROWS = 256  # segments compared with all others in one go


@dataclass(frozen=True, eq=False)
class Segments:
    """Boundaries of all members: ends from left to right, whose they are, and what is above."""

    start: Floats  # (S, 2)
    end: Floats  # (S, 2)
    member: NDArray[np.int64]  # (S,)
    rises: NDArray[np.bool_]  # (S,) class 1 lies above


@dataclass(frozen=True, eq=False)
class Votes:
    """Strips of a box with the segments in each from the bottom up."""

    width: Floats  # (T,) of the strips
    strip: NDArray[np.int64]  # (E,) the strip of each entry, in order
    height: Floats  # (E,) of the area above each entry, at the middle of the strip
    member: NDArray[np.int64]  # (E,) whose segment the entry is, -1 for the bottom
    change: NDArray[np.int64]  # (E,) +1: class 1 lies above
    first: NDArray[np.int64]  # (M, T) class of each member at the bottom
    tied: float  # area of pieces on which both logits are one function, mean over members

    def areas(self, members: Any) -> Floats:
        """Areas `(K + 1,)` by how many of the K members vote for class 1."""
        chosen = np.zeros(len(self.first), dtype=bool)
        chosen[np.asarray(members)] = True
        mine = (self.member >= 0) & chosen[self.member]
        step = np.where(mine, self.change, 0)
        bottom = self.member < 0
        step[bottom] = self.first[chosen].sum(0)[self.strip[bottom]]
        total, starts = np.cumsum(step), np.flatnonzero(bottom)
        before = (total - step)[starts]  # what the strips to the left have added
        count = total - np.repeat(before, np.diff([*starts, len(step)]))
        area = self.width[self.strip] * self.height
        size = int(chosen.sum())
        result = np.bincount(count.clip(0, size), area, size + 1)
        return result.astype(np.float64)


def votes(model: Model, box: Box) -> Votes:
    """The strips of a box for all members of a model of two inputs and two classes."""
    members = [model.member(i).double() for i in range(model.members)]
    pieces = [_regions(net, box) for net in members]
    result = [_segments(part, i) for i, part in enumerate(pieces)]
    segments = Segments(*(np.concatenate([getattr(f, n) for f in result]) for n in _FIELDS))
    (left, right), (bottom, top) = box
    ends = [np.array([left, right]), segments.start[:, 0], segments.end[:, 0], _crossings(segments)]
    indices = np.unique(np.concatenate(ends))
    middle = (indices[1:] + indices[:-1]) / 2
    strip, which = _spanned(segments, indices)
    slope = (segments.end - segments.start)[which]
    along = (middle[strip] - segments.start[which, 0]) / slope[:, 0]
    y = segments.start[which, 1] + along * slope[:, 1]
    count = len(middle)
    strip = np.concatenate([strip, np.arange(count)])
    y = np.concatenate([y.clip(bottom, top), np.full(count, -np.inf)])
    order = np.lexsort((y, strip))
    strip, y = strip[order], np.maximum(y[order], bottom)
    above = np.append(y[1:], top)
    above[np.append(strip[1:] != strip[:-1], True)] = top
    none = np.full(count, -1)
    return Votes(
        width=np.diff(indices),
        strip=strip,
        height=above - y,
        member=np.concatenate([segments.member[which], none])[order],
        change=np.concatenate([np.where(segments.rises[which], 1, -1), none])[order],
        first=_labels(members, middle, bottom),
        tied=float(np.mean([float(p.areas[_gap(p).abs().amax(1) == 0].sum()) for p in pieces])),
    )


_FIELDS = ("start", "end", "member", "rises")


def _regions(net: nn.Module, box: Box) -> Regions:
    result = regions(net, box)
    assert isinstance(result, Regions)
    return result


def _gap(result: Regions) -> torch.Tensor:
    return result.maps[:, 1] - result.maps[:, 0]  # (P, 3)


def _segments(result: Regions, member: int) -> Segments:
    """The boundary of one member; no strip has a part of an upright segment."""
    lines = result.boundaries
    pairs = lines.segments.numpy()  # (S, 2, 2)
    rises = (_gap(result)[lines.region, 1] > 0).numpy()
    pairs = np.take_along_axis(pairs, pairs[..., 0].argsort(1)[..., None], 1)
    leans = pairs[:, 0, 0] < pairs[:, 1, 0]
    start, end = pairs[leans, 0], pairs[leans, 1]
    return Segments(start=start, end=end, member=np.full(len(start), member), rises=rises[leans])


def _crossings(segments: Segments) -> Floats:
    """Where segments of different members cross: first coordinates."""
    start, way = segments.start, segments.end - segments.start
    results = []
    for low in range(0, len(start), ROWS):
        rows = slice(low, low + ROWS)
        apart = start[None] - start[rows, None]  # (r, S, 2)
        a, b = way[rows, None], way[None]
        cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (apart[..., 0] * b[..., 1] - apart[..., 1] * b[..., 0]) / cross
            t = (apart[..., 0] * a[..., 1] - apart[..., 1] * a[..., 0]) / cross
            meet = (s > 0) & (s < 1) & (t > 0) & (t < 1)
        meet &= segments.member[rows, None] != segments.member[None]
        i, j = np.nonzero(meet)
        results.append(start[rows][i, 0] + s[i, j] * way[rows][i, 0])
    return np.concatenate(results) if results else np.zeros(0)


def _spanned(segments: Segments, indices: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of a strip and a segment that reaches all across it."""
    low = np.searchsorted(indices, segments.start[:, 0])
    count = np.searchsorted(indices, segments.end[:, 0]) - low
    which = np.repeat(np.arange(len(low)), count)
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return low[which] + index, which


@torch.no_grad()
def _labels(members: list[nn.Module], x: Floats, bottom: float) -> NDArray[np.int64]:
    """The class of each member at the bottom of each strip."""
    points = torch.stack([torch.from_numpy(x), torch.full((len(x),), bottom).double()], 1)
    logits = [net(points) for net in members]
    return torch.stack([(z[:, 1] > z[:, 0]).long() for z in logits]).numpy()
