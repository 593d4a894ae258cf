"""All linear regions of a network over a box of two inputs, a slice through data, or the plane."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import comb, prod
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import InputShapeError, NescioError, one_thread
from nescio.geometry.rays.far_field import widest_layer
from nescio.geometry.regions.cells import limit_for, sweep
from nescio.geometry.regions.convex import TURN, Floats, areas, towards
from nescio.geometry.regions.polygons import Polygons
from nescio.geometry.regions.regions_value import Box, Regions, flat_offsets, joined
from nescio.geometry.tracing.domain import Part
from nescio.geometry.tracing.instances import Instance, Source, as_points, instances
from nescio.models import Predictor

BYTES = 32 << 20  # of the maps of the widest layer of one block: what stays near the processor
WIDE = 4096  # features from which more than one thread pays


@overload
def regions(
    source: nn.Module, box: Any = None, *, plane: Any = None, merge: bool = False
) -> Regions: ...


@overload
def regions(
    source: Predictor, box: Any = None, *, plane: Any = None, merge: bool = False
) -> tuple[Regions, ...]: ...


def regions(
    source: Source, box: Any = None, *, plane: Any = None, merge: bool = False
) -> Regions | tuple[Regions, ...]:
    """All linear regions of a network with two inputs, or on a plane through three of its inputs.

    Of a model or predictor a tuple, one per member. Exact up to float64 rounding: a part of a
    region that is thinner than 1e-12 of the largest coordinate is not told apart.

    source: a network, a model or a predictor; each member is analyzed by itself.
    box: `[(low, high), (low, high)]` of the plane's coordinates; None: the whole plane.
    plane: three inputs `(3, *features)`. The first is the origin (0, 0) of the coordinates, the
      second lies on their first axis; lengths are those of the inputs. See `around`. None: the
      network has two inputs, which are the coordinates.
    merge: whether neighbors with one affine map become one region, which need not be convex.
    """
    where, frame = _box(box), _frame(plane)
    found = tuple(
        joined(list(_stream(instance, where, frame, plane is None)))
        for instance in instances(source)
    )
    if merge:
        from nescio.geometry.regions.merging import merged

        found = tuple(merged(one) for one in found)
    return found[0] if isinstance(source, nn.Module) else found


def stream_regions(
    net: Source, box: Any = None, *, plane: Any = None, block: int | None = None
) -> Iterator[Regions]:
    """The regions of `regions`, in blocks of at most `block`: memory stays bounded.

    net: a network, or a model or predictor of one member.
    box: `[(low, high), (low, high)]` of the plane's coordinates; None: the whole plane.
    plane: three inputs `(3, *features)` that span the plane; None: the network has two inputs.
    block: largest number of regions in a block; None: what 32 MB of the widest layer hold.
    """
    found = instances(net)
    if len(found) != 1:
        raise NescioError("stream one network at a time: stream_regions(model.member(0), ...)")
    if block is not None and block < 1:
        raise NescioError(f"a block must hold at least one linear region, got {block}")
    return _stream(found[0], _box(box), _frame(plane), plane is None, block)


def around(plane: Any, margin: float = 0.5) -> Box:
    """A box round three inputs in the coordinates of their plane.

    plane: three inputs `(3, *features)`.
    margin: how much wider the box is on each side, as a share of its size.
    """
    points = as_points(plane, "plane")
    origin, basis = _frame(plane)
    at = (points - origin).flatten(1) @ basis.flatten(1).T
    low, high = at.amin(0), at.amax(0)
    more = margin * (high - low)
    (left, bottom), (right, top) = (low - more).tolist(), (high + more).tolist()
    return (left, right), (bottom, top)


def _box(box: Any) -> Box | None:
    if box is None:
        return None
    try:
        ends = np.asarray(box, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)  # refused below, with what came
    if ends.shape != (2, 2) or not np.isfinite(ends).all() or (ends[:, 0] >= ends[:, 1]).any():
        raise NescioError(
            f"a box is [(low, high), (low, high)] with low < high, got {box!r}; None is the plane"
        )
    (left, right), (bottom, top) = ends.tolist()
    return (left, right), (bottom, top)


def _frame(plane: Any) -> tuple[Tensor, Tensor]:
    """The origin and two orthonormal directions `(2, *features)` of a plane."""
    if plane is None:
        return torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    points = as_points(plane, "plane")
    if len(points) != 3:
        raise NescioError(f"a plane is three inputs (3, features, ...), got {tuple(points.shape)}")
    first, second = (points[1:] - points[0]).flatten(1)
    across = first / first.norm()
    rest = second - (second @ across) * across
    rest = rest - (rest @ across) * across  # once more: what rounding left
    if not first.norm() > 0 or not rest.norm() > 1e-9 * second.norm():
        raise NescioError("the three inputs of a plane lie on one line; choose another")
    basis = torch.stack([across, rest / rest.norm()])
    return points[0], basis.reshape(2, *points.shape[1:])


def _stream(
    instance: Instance,
    box: Box | None,
    frame: tuple[Tensor, Tensor],
    two_inputs: bool,
    block: int | None = None,
) -> Iterator[Regions]:
    origin, basis = frame
    widest = _widest(instance, origin, basis, two_inputs)
    limit = block or limit_for(widest, 3, BYTES)
    ends = None if box is None else np.array(box).T.copy()
    blocks = sweep(instance, Polygons(origin, basis, ends, limit=limit))
    while True:
        with one_thread() if widest < WIDE else nullcontext():
            found = next(blocks, None)
            value = None if found is None else _value(*found, box)
        if value is None:
            return
        yield value


@one_thread()
def _widest(instance: Instance, origin: Tensor, basis: Tensor, two_inputs: bool) -> int:
    """The features of the widest layer, by a pass with one ray."""
    try:
        return widest_layer(instance, origin[None], basis[:1])
    except InputShapeError as error:
        if two_inputs:
            raise InputShapeError(
                f"without plane= the network must take 2 features; pass three inputs as plane= for "
                f"a slice ({error})"
            ) from None
        raise


def _value(block: Polygons, logits: Part, box: Box | None) -> Regions:
    maps = logits.coefs.permute(1, 2, 0).contiguous()
    read = _everywhere if block.store is None else _on_plane if box is None else _in_box
    vertices, counts, size, ways, spread = read(block)
    free = ~np.isnan(spread)
    return Regions(
        vertices=torch.from_numpy(vertices),
        offsets=flat_offsets(counts),
        maps=maps,
        areas=torch.from_numpy(size),
        unbounded=torch.from_numpy(free),
        directions=torch.from_numpy(ways),
        spread=torch.from_numpy(spread),
        towards=torch.from_numpy(towards(ways, spread)),
        box=box,
        plane=(block.origin, block.basis),
        bounds=_bounds(block),
        seam=block.seam,
    )


Found = tuple[Floats, Any, Floats, Floats, Floats]


def _in_box(block: Polygons) -> Found:
    """Vertices, counts, areas, directions and angles of regions inside a box."""
    store = block.store
    assert store is not None
    counts = store.counts
    inside = np.arange(store.corners.shape[2]) < counts[:, None]
    free, ways, spread = block.normals.cones()
    edge = np.zeros(len(counts), dtype=bool)
    edge[block.border()] = True
    ways[~(edge & free)], spread[~(edge & free)] = np.nan, np.nan
    low, high = block.box if block.box is not None else (-np.inf, np.inf)
    vertices = np.clip(store.corners.transpose(1, 2, 0)[inside], low, high)
    return vertices, counts, areas(store.corners), ways, spread


def _on_plane(block: Polygons) -> Found:
    """The same for regions of the whole plane: corners at infinity are their directions."""
    store = block.store
    assert store is not None
    x, y, w = store.corners
    counts, rows, width = store.counts, np.arange(len(store.counts)), w.shape[1]
    finite = w > 0
    first = (finite & ~np.roll(finite, 1, 1)).argmax(1)  # after the corners at infinity
    place = (first[:, None] + np.arange(width)) % counts[:, None]
    x, y = x[rows[:, None], place], y[rows[:, None], place]
    many = (finite & (np.arange(width) < counts[:, None])).sum(1)
    free = many < counts
    leaves, comes = np.where(free, many, 0), counts - 1
    ways = np.stack([np.stack([x[rows, at], y[rows, at]], 1) for at in (leaves, comes)], 1)
    cross = ways[:, 0, 0] * ways[:, 1, 1] - ways[:, 0, 1] * ways[:, 1, 0]
    spread = np.where(counts - many == 2, np.arctan2(cross, (ways[:, 0] * ways[:, 1]).sum(1)), 0.0)
    inside = np.arange(width) < many[:, None]
    size = np.full(len(counts), np.inf)
    last = np.minimum(np.arange(width), counts[:, None] - 1)
    kept = ~free
    size[kept] = areas(np.stack([c[rows[kept, None], last[kept]] for c in (x, y)]))
    ways[~free], spread[~free] = np.nan, np.nan
    return np.stack([x, y], -1)[inside], many, size, ways, np.abs(spread)


def _everywhere(_: Polygons) -> Found:
    """The same for one region, the whole plane."""
    ways = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    return np.zeros((0, 2)), np.zeros(1), np.array([np.inf]), ways, np.array([TURN])


def _bounds(block: Polygons) -> dict[str, int]:
    found = {"Zaslavsky 1975, layer by layer": prod(map(zaslavsky, block.units))}
    if block.plain and block.units:
        found["Montufar 2017"] = montufar(block.units)
    if block.plain and block.rectified and block.units:
        found["Serra et al. 2018"] = serra(block.units)
    return found


def zaslavsky(lines: int, dimension: int = 2) -> int:
    """Cells of an arrangement of hyperplanes, at most (Zaslavsky, 1975).

    >>> zaslavsky(3)
    7
    """
    return sum(comb(lines, j) for j in range(dimension + 1))


def montufar(widths: Sequence[int], dimension: int = 2) -> int:
    """Linear regions of a chain of one-bend layers (Montufar, 2017): the product over the layers.

    A layer cuts a space of at most the least width before it.
    """
    least = [min([dimension, *widths[:i]]) for i in range(len(widths))]
    return prod(zaslavsky(n, d) for n, d in zip(widths, least, strict=True))


def serra(widths: Sequence[int], dimension: int = 2) -> int:
    """Linear regions of a chain of ReLU layers (Serra et al., 2018, theorem 1).

    The sum over j_1, ..., j_L of the products of n_l choose j_l, where j_l is at most the inputs,
    n_l, and what is left of every layer before, n_i - j_i.
    """
    ways = {dimension: 1}  # by the least of what is left so far
    for n in widths:
        after: dict[int, int] = {}
        for room, count in ways.items():
            for j in range(min(room, n) + 1):
                left = min(room, n - j)
                after[left] = after.get(left, 0) + count * comb(n, j)
        ways = after
    return sum(ways.values())
