"""Neighboring regions with one affine map as one region.

Activation patterns can differ where the outputs do not: behind dead units a network has fewer
linear regions than patterns.
"""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from nescio.core import NescioError
from nescio.geometry.regions.convex import Bools, Floats, Ints
from nescio.geometry.regions.regions_value import Regions, flat_offsets

SAME = 1e-9  # relative: maps that are one, and corners that are one


def merged(regions: Regions) -> Regions:
    """The same regions with equal neighbors joined; `parts` keeps the convex parts.

    An outline runs counter-clockwise; a hole is joined to it by an edge that is walked both ways.
    Of a region made of several without end, `spread` is the sum and `directions` are NaN.
    """
    if regions.box is None:
        raise NescioError("merge=True needs a box; the whole plane cannot be merged: pass box=")
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = len(regions)
    tail, head, owner = _half_edges(regions)
    first, second = _neighbors(tail, head, owner)
    equal = _equal_maps(regions, first, second)
    graph = coo_array(
        (np.ones(int(equal.sum()), dtype=np.int8), (first[equal], second[equal])), (size, size)
    )
    count, group = connected_components(graph, directed=False)
    _, start, group = np.unique(group, return_index=True, return_inverse=True)  # in their order
    order = np.argsort(np.argsort(start))
    group = order[group].astype(np.int64)
    return _value(regions, group, count, (tail, head, owner))


def _corner_names(regions: Regions) -> Ints:
    """A number for each corner; corners at one place share it."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    places = regions.vertices.numpy()
    close = cKDTree(places).query_pairs(SAME * _reach(regions).max(), output_type="ndarray")
    ones = np.ones(len(close), dtype=np.int8)
    graph = coo_array((ones, (close[:, 0], close[:, 1])), (len(places),) * 2)
    names: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return names


def _reach(regions: Regions) -> Floats:
    return np.asarray(np.abs(np.array(regions.box)).max(1))


def _half_edges(regions: Regions) -> tuple[Ints, Ints, Ints]:
    """Start and end of each edge of each region, and the region; edges are cut at corners."""
    names, offsets = _corner_names(regions), regions.offsets.numpy()
    after = np.arange(len(names)) + 1
    after[offsets[1:] - 1] = offsets[:-1]
    owner = np.repeat(np.arange(len(regions)), np.diff(offsets))
    tail, head = names, names[after]
    real = tail != head
    tail, head, owner = tail[real], head[real], owner[real]
    places = np.empty((names.max() + 1, 2))
    places[names] = regions.vertices.numpy()
    return _split(tail, head, owner, places, regions)


def _split(
    tail: Ints, head: Ints, owner: Ints, places: Floats, regions: Regions
) -> tuple[Ints, Ints, Ints]:
    """Cut edges that another region has in two: corners can lie within rounding of an edge."""
    base = max(int(tail.max()), int(head.max())) + 1
    alone = np.flatnonzero(~np.isin(tail * base + head, head * base + tail))  # walked one way only
    low, high = np.array(regions.box).T
    close = SAME * _reach(regions).max()
    at = places[np.stack([tail[alone], head[alone]])]  # (2, E, 2)
    on_side = (np.abs(at - low) <= close).all(0) | (np.abs(at - high) <= close).all(0)
    alone = alone[~on_side.any(1)]
    ends = np.unique(np.concatenate([tail[alone], head[alone]]))
    new: list[tuple[int, int, int]] = []
    gone = []
    for edge in alone.tolist():
        a, b = int(tail[edge]), int(head[edge])
        along = places[b] - places[a]
        length = np.hypot(*along)
        rest = places[ends] - places[a]
        share = rest @ along / length**2
        off = np.abs(rest @ np.array([-along[1], along[0]])) / length
        inner = (off <= close) & (share > 0) & (share < 1) & (ends != a) & (ends != b)
        if inner.any():
            path = [a, *ends[inner][np.argsort(share[inner])].tolist(), b]
            new += [(p, q, int(owner[edge])) for p, q in pairwise(path)]
            gone.append(edge)
    if not gone:
        return tail, head, owner
    kept = np.delete(np.stack([tail, head, owner]), gone, 1)
    tail, head, owner = np.concatenate([kept, np.array(new, dtype=np.int64).T], 1)
    return tail, head, owner


def _neighbors(tail: Ints, head: Ints, owner: Ints) -> tuple[Ints, Ints]:
    """Pairs of regions that share an edge."""
    base = max(int(tail.max()), int(head.max())) + 1
    key = np.minimum(tail, head) * base + np.maximum(tail, head)
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    return owner[order][:-1][same], owner[order][1:][same]


def _equal_maps(regions: Regions, first: Ints, second: Ints) -> Bools:
    maps = regions.maps.numpy() * np.append(_reach(regions), 1.0)
    gap = np.abs(maps[first] - maps[second]).max((1, 2))
    size = np.maximum(np.abs(maps[first]), np.abs(maps[second])).max((1, 2))
    return np.asarray(gap <= SAME * size)


def _value(regions: Regions, group: Ints, count: int, edges: tuple[Ints, Ints, Ints]) -> Regions:
    rank = torch.from_numpy(group)
    total = torch.zeros(count, dtype=torch.float64)
    ends = regions.unbounded
    many = total.index_add(0, rank, ends.double())
    spread = total.index_add(0, rank, regions.spread.nan_to_num()).clamp(max=2 * np.pi)
    order = np.lexsort((regions.areas.numpy(), group))  # the largest part of a group is its last
    one = torch.from_numpy(order[np.flatnonzero(np.diff(group[order], append=count))])
    only = torch.zeros(count, dtype=torch.long)
    only[rank[ends]] = ends.nonzero()[:, 0]
    directions = regions.directions[only]
    directions[many != 1] = torch.nan
    towards = torch.zeros(count, 4, dtype=torch.long).index_add(0, rank, regions.towards.long())
    vertices, counts = _outlines(regions, group, count, edges)
    return replace(
        regions,
        vertices=vertices,
        offsets=flat_offsets(counts),
        maps=regions.maps[one],
        areas=total.index_add(0, rank, regions.areas),
        unbounded=many > 0,
        directions=directions,
        spread=torch.where(many > 0, spread, torch.nan),
        towards=towards > 0,
        parts=regions,
        group=rank,
    )


def _outlines(
    regions: Regions, group: Ints, count: int, edges: tuple[Ints, Ints, Ints]
) -> tuple[torch.Tensor, Ints]:
    """The corners of every group, flat, and how many each has."""
    tail, head, owner = edges
    base = max(int(tail.max()), int(head.max())) + 1
    of = group[owner]
    going, coming = ((of * base + a) * base + b for a, b in ((tail, head), (head, tail)))
    inner = np.isin(going, coming)
    parts = np.bincount(group, minlength=count)
    loops: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for edge in np.flatnonzero(~inner & (parts[of] > 1)).tolist():
        loops[int(of[edge])][int(tail[edge])].append(int(head[edge]))
    places = np.empty((base, 2))
    places[_corner_names(regions)] = regions.vertices.numpy()
    first = np.full(count, -1)
    first[group[::-1]] = np.arange(len(group))[::-1]
    whole = regions.polygons
    made = [
        whole[int(first[g])] if parts[g] == 1 else torch.from_numpy(_ring(loops[g], places))
        for g in range(count)
    ]
    return torch.cat(made), np.array([len(corners) for corners in made])


def _ring(edges: dict[int, list[int]], places: Floats) -> Floats:
    """One closed walk over all border edges of a group."""
    rings = []
    while edges:
        start = next(iter(edges))
        ring = [start]
        while True:
            choices = edges.get(ring[-1], [])
            ahead = _next(ring, choices, places)
            choices.remove(ahead)
            if not choices:
                del edges[ring[-1]]
            if ahead == start:
                break
            ring.append(ahead)
        rings.append(places[ring])
    rings.sort(key=_area, reverse=True)
    walk = rings[0]
    for hole in rings[1:]:
        gaps = np.abs(walk[:, None] - hole).sum(2)
        i, j = np.unravel_index(gaps.argmin(), gaps.shape)
        around = np.concatenate([hole[j:], hole[: j + 1]])
        walk = np.concatenate([walk[: i + 1], around, walk[i:]])
    return walk


def _next(ring: list[int], choices: list[int], places: Floats) -> int:
    """The next corner; where a walk meets itself, the sharpest turn to the left."""
    if not choices:
        raise NescioError(
            "some regions are too thin to be merged, or the box is too large; use merge=False"
        )
    if len(choices) == 1 or len(ring) == 1:
        return choices[0]
    here = places[ring[-1]]
    x, y = here - places[ring[-2]]
    turns = [
        np.arctan2(x * (v - here[1]) - y * (u - here[0]), x * (u - here[0]) + y * (v - here[1]))
        for u, v in places[choices]
    ]
    return choices[int(np.argmax(turns))]


def _area(ring: Floats) -> float:
    x, y = (ring - ring[0]).T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2
