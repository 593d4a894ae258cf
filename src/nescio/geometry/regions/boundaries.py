"""Where the two largest logits of a network are equal, exactly, region by region."""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from nescio.geometry.regions.convex import TOLERANCE, Bools, Floats, Ints, normal_form, sides
from nescio.geometry.regions.regions_value import Regions

CHUNK = 1 << 14  # regions that are looked at together


@dataclass(frozen=True, eq=False, kw_only=True)
class Boundaries:
    """Segments on which two classes share the largest logit.

    In the whole plane a segment may have no end: it then starts at `segments[s, 0]` and runs along
    `segments[s, 1] - segments[s, 0]`, which has length 1.

    segments: both ends of each segment, `(S, 2, 2)`.
    classes: the two classes, the lower one first, `(S, 2)`.
    region: the region each segment lies in, or on the edge of, `(S,)`.
    endless: whether a segment has no end, `(S,)`.
    directions: unit directions in which the boundary runs to infinity, `(D, 2)`.
    direction_classes: the two classes in each of these directions, `(D, 2)`.
    tied: regions whose two largest logits are equal everywhere.
    """

    segments: Tensor
    classes: Tensor
    region: Tensor
    endless: Tensor
    directions: Tensor
    direction_classes: Tensor
    tied: Tensor

    def __len__(self) -> int:
        return len(self.segments)


def boundaries_of(regions: Regions) -> Boundaries:
    """The boundaries between classes, from the maps of the regions.

    A boundary along an edge of two regions is given once. In a box the directions are those of the
    whole regions, which go on beyond it.
    """
    if regions.parts is not None and regions.group is not None:
        inner, group = boundaries_of(regions.parts), regions.group
        return replace(inner, region=group[inner.region], tied=group[inner.tied].unique())
    corners, counts, owner = _padded(regions)
    maps = regions.maps.numpy()
    step = max(1, CHUNK * 16 // (maps.shape[1] ** 2 + 16))
    found = [
        _block(corners[:, part], counts[part], maps[owner[part]], owner[part], regions)
        for part in np.split(np.arange(len(counts)), range(step, len(counts), step))
    ]
    ends = np.concatenate([f[0] for f in found], 1)
    classes, region, on_edge = (np.concatenate([f[i] for f in found]) for i in (1, 2, 3))
    tied = np.unique(np.concatenate([f[4] for f in found]))
    keep = _once(ends, classes, on_edge, regions)
    ends, classes, region = ends[:, keep], classes[keep], region[keep]
    endless = (ends[2] == 0).any(1)
    ends[:, endless & (ends[2, :, 0] == 0)] = ends[:, endless & (ends[2, :, 0] == 0), ::-1]
    segments = ends[:2].transpose(1, 2, 0).copy()
    ways, way_classes = segments[endless, 1].copy(), classes[endless]
    segments[endless, 1] += segments[endless, 0]
    if regions.box is not None:
        segments = np.clip(segments, *np.array(regions.box).T)
        ways, way_classes = _beyond(regions, classes, region)
    ways, way_classes = _distinct(ways, way_classes)
    arrays = (segments, classes, region, endless, ways, way_classes, tied)
    names = (f.name for f in fields(Boundaries))
    return Boundaries(**{n: torch.from_numpy(a) for n, a in zip(names, arrays, strict=True)})


def _padded(regions: Regions) -> tuple[Floats, Ints, Ints]:
    """Homogeneous corners `(3, n, P)` of the regions, their counts and the region of each."""
    if len(regions.vertices) == 0:  # the whole plane in four quarters
        ways = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
        quarters = [[[0, 0, 1], [*ways[i], 0], [*ways[(i + 1) % 4], 0]] for i in range(4)]
        return (
            np.array(quarters, dtype=np.float64).transpose(2, 0, 1),
            np.full(4, 3),
            np.zeros(4, np.int64),
        )
    offsets, vertices = regions.offsets.numpy(), regions.vertices.numpy()
    counts = np.diff(offsets)
    width = int(counts.max()) + 2
    place = np.minimum(np.arange(width), counts[:, None] - 1)
    flat = vertices[offsets[:-1, None] + place]
    corners = np.concatenate([flat, np.ones((*flat.shape[:2], 1))], 2).transpose(2, 0, 1).copy()
    if regions.box is None:
        rows = regions.unbounded.nonzero()[:, 0].numpy()
        ways = regions.directions.numpy()
        at = counts[rows]
        corners[:, rows, at] = np.concatenate([ways[rows, 0].T, np.zeros((1, len(rows)))])
        last = np.concatenate([ways[rows, 1].T, np.zeros((1, len(rows)))])
        for step in range(1, width):
            beyond = at + step < width
            corners[:, rows[beyond], (at + step)[beyond]] = last[:, beyond]
        counts = counts.copy()
        counts[rows] += 2
    return corners, counts, np.arange(len(counts))


Block = tuple[Floats, Ints, Ints, Bools, Ints]


def _block(corners: Floats, counts: Ints, maps: Floats, owner: Ints, regions: Regions) -> Block:
    """Ends `(3, S, 2)`, classes, region, whether on an edge, of some regions; and tied regions."""
    n, classes = maps.shape[:2]
    reach = None
    if regions.box is not None:
        corners, reach = corners[:2], np.abs(np.array(regions.box)).max(1)
    flat = maps.transpose(2, 0, 1).reshape(3, -1)
    values, zero = sides(np.repeat(corners, classes, 1), flat, reach)
    values = values.reshape(n, classes, -1)
    zero = np.broadcast_to(zero.reshape(n, classes, -1), values.shape).max(1)  # (n, P)
    behind = values.max(1)[:, None] - values
    highest = behind <= zero[:, None]  # (n, C, P) who is largest at a corner
    always = highest.all(2)
    tied = always.sum(1) > 1
    # two classes with no third that is above one of them on the whole region
    busy = np.flatnonzero(~tied & (highest.sum(1) > 1).any(1) | (always.sum(1) == 0))
    low, high = np.triu_indices(classes, 1)
    row, pair = (part.ravel() for part in np.meshgrid(busy, np.arange(len(low)), indexing="ij"))
    first, second = low[pair], high[pair]
    gap = values[row, first] - values[row, second]
    slack = zero[row]
    meets = (gap >= -slack).any(1) & (gap <= slack).any(1) & (np.abs(gap) > slack).any(1)
    row, first, second, gap, slack = (a[meets] for a in (row, first, second, gap, slack))
    gap = np.where(np.abs(gap) <= slack, 0.0, gap)
    ends, good, edge = _chords(corners, counts, row, gap)
    ends, row, first, second, edge = ends[:, good], row[good], first[good], second[good], edge[good]
    ends, good = _clipped(ends, maps, row, first, reach)
    ends, row = ends[:, good], row[good]
    pairs = np.stack([first[good], second[good]], 1)
    return ends, pairs, owner[row], edge[good], owner[tied]


def _chords(corners: Floats, counts: Ints, row: Ints, gap: Floats) -> tuple[Floats, Bools, Bools]:
    """The part of a line inside its polygon: a chord, or an edge it runs along."""
    width = gap.shape[1]
    place = np.arange(width)
    real = place < counts[row][:, None]
    after = np.where(place + 1 < counts[row][:, None], place + 1, 0)
    many = np.arange(len(row))[:, None]
    following = gap[many, after]
    turns = real & (gap * following < 0)
    on = real & (gap == 0)
    found = turns.sum(1) + on.sum(1)
    good = found >= 2
    edge = np.asarray(((gap > 0) & real).any(1) ^ ((gap < 0) & real).any(1))
    point = corners
    if len(corners) == 2:
        point = np.concatenate([corners, np.ones((1, *corners.shape[1:]))])
    here, there = point[:, row], point[:, row[:, None], after]
    with np.errstate(invalid="ignore", divide="ignore"):
        near, far = np.abs(gap), np.abs(following)
        crossing = np.where(on, here, (near * there + far * here) / (near + far))
    marked = turns | on
    one = np.arange(len(row))
    first = marked.argmax(1)
    start = crossing[:, one, first]
    apart = np.abs(crossing[:2] - start[:2, :, None]).max(0)
    apart = np.where(crossing[2] == start[2, :, None], apart, np.inf)
    last = np.where(marked, apart, -1.0).argmax(1)  # two corners may be as good as one
    ends = np.stack([start, crossing[:, one, last]], 2)
    ends = np.where(good[None, :, None], ends, 1.0)
    good &= ~((ends[2] == 0).all(1))
    ends = normal_form(ends.reshape(3, -1)).reshape(3, -1, 2)
    return ends, good, edge


def _clipped(
    ends: Floats, maps: Floats, row: Ints, first: Ints, reach: Floats | None
) -> tuple[Floats, Bools]:
    """The part of each segment on which no third class is above."""
    start, stop = np.zeros(len(row)), np.ones(len(row))
    mine = maps[row, first]  # (s, 3)
    for rival in range(maps.shape[1]):
        line = (mine - maps[row, rival]).T
        values, zero = sides(ends if reach is None else ends[:2], line, reach)
        values = np.where(np.abs(values) <= zero, 0.0, values)
        a, b = values.T
        with np.errstate(invalid="ignore", divide="ignore"):
            root = a / (a - b)
        start = np.where((a < 0) & (b > 0), np.maximum(start, root), start)
        stop = np.where((a > 0) & (b < 0), np.minimum(stop, root), stop)
        never = ((a < 0) & (b <= 0)) | ((a <= 0) & (b < 0))
        stop = np.where(never, -1.0, stop)
    low, high = ends[:, :, 0], ends[:, :, 1]
    length = np.where(low[2] == high[2], np.abs(high - low).max(0), np.inf)
    good: Bools = (stop - start) * length > 10 * TOLERANCE * np.abs(ends[:2]).max((0, 2))
    made = np.stack([low + start * (high - low), low + stop * (high - low)], 2)
    made[:, start == 0, 0], made[:, stop == 1, 1] = low[:, start == 0], high[:, stop == 1]
    made = np.where(good[None, :, None], made, 1.0)
    return normal_form(made.reshape(3, -1)).reshape(3, -1, 2), good


def _once(ends: Floats, classes: Ints, on_edge: Bools, regions: Regions) -> Bools:
    """All segments, but of those on an edge of two regions one only."""
    keep = ~on_edge
    rows = np.flatnonzero(on_edge)
    if len(rows):
        scale = 1.0 if regions.box is None else float(np.abs(np.array(regions.box)).max())
        some = np.round(ends[:, rows] / (1e-9 * max(scale, 1.0))).transpose(1, 2, 0)  # (s, 2, 3)
        swap = (some[:, 0] != some[:, 1]).argmax(1)
        many = np.arange(len(rows))
        turned = some[many, 0, swap] > some[many, 1, swap]
        some[turned] = some[turned, ::-1]
        key = np.concatenate([some.reshape(len(rows), -1), classes[rows]], 1)
        keep[rows[np.unique(key, axis=0, return_index=True)[1]]] = True
    return keep


def _beyond(regions: Regions, classes: Ints, region: Ints) -> tuple[Floats, Ints]:
    """Directions of boundaries in the regions that go on beyond a box."""
    owner = np.flatnonzero(regions.unbounded.numpy())
    maps = regions.maps.numpy()[owner]
    ways, spread = regions.directions.numpy()[owner], regions.spread.numpy()[owner]
    here = set(zip(region.tolist(), *classes.T.tolist(), strict=True))
    found, found_classes = [np.zeros((0, 2))], [np.zeros((0, 2), dtype=np.int64)]
    low, high = np.triu_indices(maps.shape[1], 1)
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        normal = maps[:, a, :2] - maps[:, b, :2]
        length = np.hypot(*normal.T)
        usable = length > 0
        unit = np.stack([-normal[:, 1], normal[:, 0]], 1) / np.where(usable, length, 1.0)[:, None]
        inside = np.array([(int(p), a, b) in here for p in owner], dtype=bool)
        for way in (unit, -unit):
            cross = ways[:, 0, 0] * way[:, 1] - ways[:, 0, 1] * way[:, 0]
            turn = np.arctan2(cross, (ways[:, 0] * way).sum(1)) % (2 * np.pi)  # counter-clockwise
            deep = (turn > TOLERANCE) & (turn < spread - TOLERANCE)
            rim = (np.abs(way[:, None] - ways).max(2) <= 1e-9).any(1) & inside
            good = usable & (deep | rim)
            slope = (maps[:, :, :2] * way[:, None]).sum(2)
            size = np.abs(maps[:, :, :2]).sum(2).max(1)
            rise = slope - slope[:, [a]]
            good &= (rise <= TOLERANCE * size[:, None]).all(1)
            level = np.abs(rise) <= TOLERANCE * size[:, None]
            level[:, [a, b]] = False
            foot = -(maps[:, a, 2] - maps[:, b, 2]) / np.where(usable, length, 1.0) ** 2
            at = foot[:, None] * normal
            value = (maps[:, :, :2] * at[:, None]).sum(2) + maps[:, :, 2]
            good &= ~(level & (value > value[:, [a]])).any(1)
            found.append(way[good])
            found_classes.append(np.tile([a, b], (int(good.sum()), 1)))
    return np.concatenate(found), np.concatenate(found_classes)


def _distinct(ways: Floats, classes: Ints) -> tuple[Floats, Ints]:
    """Each direction once for each pair of classes."""
    if len(ways) == 0:
        return ways, classes
    key = np.concatenate([np.round(ways / 1e-9), classes], 1)
    keep = np.sort(np.unique(key, axis=0, return_index=True)[1])
    return ways[keep], classes[keep]
