"""Cutting convex polygons, their cones, and a domain of polygons, against brute force."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nescio.geometry.regions.arrangement import Store, largest_cells, quadrants, ranges
from nescio.geometry.regions.cells import sweep
from nescio.geometry.regions.convex import (
    Normals,
    areas,
    box_corners,
    crosses,
    halves,
    sides,
    towards,
)
from nescio.geometry.regions.polygons import Polygons
from nescio.geometry.tracing.instances import instances

REACH = np.array([1.0, 1.0])
SQUARE = box_corners((-1, -1), (1, 1))


def polygon(corners):
    return np.array(corners, dtype=float).T[:, None], np.array([len(corners)])


def is_convex(corners, count):
    p = corners[:, :count].T
    a, b = np.roll(p, -1, 0) - p, np.roll(p, -2, 0) - np.roll(p, -1, 0)
    return (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] >= -1e-9).all()


# -- one cut


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1.5, 1.5), st.integers(3, 9))
@settings(deadline=None, max_examples=200)
def test_two_halves_make_the_whole(h0, h1, h2, count):
    turn = np.sort(np.random.default_rng(count).uniform(0, 2 * np.pi, count))
    corners, counts = polygon(np.stack([np.cos(turn), np.sin(turn)], 1))
    line = np.array([[h0], [h1], [h2]])
    line[abs(line) < 1e-200] = 0  # numbers so small have no digits left to interpolate with
    values, zero = sides(corners, line, REACH)
    strict = (values > zero).any() and (values < -zero).any()
    assert crosses(corners, line, REACH).tolist() == [strict]
    if not strict:
        return
    (upper, many), (lower, few) = halves(corners, counts, line, REACH)
    total = areas(upper) + areas(lower)
    assert total == pytest.approx(areas(corners), rel=1e-9, abs=1e-12)
    size = abs(h0) + abs(h1) + abs(h2)
    assert (sides(upper, line, REACH)[0] >= -1e-11 * size).all()
    assert (sides(lower, line, REACH)[0] <= 1e-11 * size).all()
    assert is_convex(upper[:, 0], many[0])
    assert is_convex(lower[:, 0], few[0])


@pytest.mark.parametrize(
    ("line", "upper", "lower"),
    [
        ((1, 0, 0), 4, 4),  # across two sides
        ((1, -1, 0), 3, 3),  # through two corners
        ((1, 0.5, 0.5), 4, 3),  # through one corner
        ((1, 1, -1), 3, 5),  # cuts a corner off
        ((-1, -1, 1), 5, 3),
    ],
)
def test_corners_of_the_halves_of_a_square(line, upper, lower):
    line = np.array(line, dtype=float)[:, None]
    (_, many), (_, few) = halves(SQUARE, np.array([4]), line, REACH)
    assert (many.tolist(), few.tolist()) == ([upper], [lower])


@pytest.mark.parametrize(
    "line", [(1, 0, -1), (1, 0, 1), (1, 1, -2), (0, 0, 1), (0, 0, 0), (1, 0, -1 + 1e-13)]
)
def test_lines_that_only_touch_do_not_cut(line):
    assert not crosses(SQUARE, np.array(line, dtype=float)[:, None], REACH).any()


def test_corners_at_infinity_are_cut_as_points_are():
    """The first quadrant, cut by x = 2, y = x and x + y = 1."""
    cone = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=float).T[:, None]
    counts = np.array([3])
    (right, many), (left, few) = halves(cone, counts, np.array([[1.0], [0], [-2]]), None)
    assert (many.tolist(), few.tolist()) == ([3], [3])
    assert right[:, 0].T.tolist() == [[1, 0, 0], [0, 1, 0], [2, 0, 1]]
    assert left[:, 0].T.tolist() == [[0, 1, 0], [0, 0, 1], [2, 0, 1]]
    (below, many), _ = halves(cone, counts, np.array([[1.0], [-1], [0]]), None)
    half = 0.5**0.5
    assert below[:, 0, : many[0]].T.tolist() == [
        [1, 0, 0],
        pytest.approx([half, half, 0]),
        [0, 0, 1],
    ]
    _, (corner, few) = halves(cone, counts, np.array([[1.0], [1], [-1]]), None)
    assert few.tolist() == [3]
    assert sorted(corner[:, 0, : few[0]].T.tolist()) == [[0, 0, 1], [0, 1, 1], [1, 0, 1]]


# -- many cuts


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(deadline=None, max_examples=40)
def test_an_arrangement_has_the_number_of_cells_that_crossings_give(seed, count):
    """1 + lines + crossings inside the square, for lines in general position (Euler)."""
    rng = np.random.default_rng(seed)
    turn = rng.uniform(0, np.pi, count)
    lines = np.stack([np.cos(turn), np.sin(turn), rng.uniform(-0.9, 0.9, count)])
    store, parents = Store(SQUARE, np.array([4]), REACH).cut(np.zeros(count, dtype=np.int64), lines)
    inside = 0
    for i, j in np.argwhere(np.triu(np.ones((count, count)), 1)):
        matrix = lines[:2, [i, j]].T
        if abs(np.linalg.det(matrix)) > 1e-9:
            inside += np.abs(np.linalg.solve(matrix, -lines[2, [i, j]])).max() < 1
    assert len(store.counts) == 1 + count + inside
    assert areas(store.corners).sum() == pytest.approx(4.0, rel=1e-12)
    assert (parents == 0).all()
    assert all(is_convex(store.corners[:, i], k) for i, k in enumerate(store.counts))


def test_rows_are_cut_by_their_own_lines_only():
    store = Store(np.repeat(SQUARE, 3, 1), np.array([4, 4, 4]), REACH)
    lines = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]]).T
    new, parents = store.cut(np.array([0, 0, 2]), lines)
    assert np.bincount(parents).tolist() == [4, 1, 2]
    assert np.bincount(parents, areas(new.corners)).tolist() == pytest.approx([4.0] * 3)
    same, none = store.cut(np.array([1]), np.array([[1.0], [0], [5]]))
    assert same is store
    assert none is None


@given(st.integers(0, 10_000), st.integers(2, 6))
@settings(deadline=None, max_examples=40)
def test_cells_of_the_largest_are_where_it_is_largest(seed, members):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(3, 5, members))
    if seed % 3 == 0:
        windows[:, :, -1] = windows[:, :, 0]  # an equal: the first wins
    corners, counts = np.repeat(SQUARE, 5, 1), np.full(5, 4)
    owner, cells, sizes = largest_cells(corners, counts, windows, REACH)
    assert np.bincount(owner, areas(cells)).tolist() == pytest.approx([4.0] * 5)
    middle = np.concatenate([cells.mean(2), np.ones((1, len(owner)))])
    best = np.einsum("kn,knw->nw", middle, windows[:, owner]).argmax(1)
    for row in range(5):
        mine = owner == row
        assert len(np.unique(best[mine])) == mine.sum()
        for cell, size, winner in zip(
            cells[:, mine].transpose(1, 2, 0), sizes[mine], best[mine], strict=True
        ):
            values = np.concatenate([cell[:size], np.ones((size, 1))], 1) @ windows[:, row]
            assert (values[:, winner] >= values.max(1) - 1e-9).all()


def test_ranges_are_numbered_one_after_the_other():
    owner, numbers = ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert numbers.tolist() == [5, 6, 9, 10, 11]


def test_quadrants_use_two_lines_that_meet_at_a_good_angle():
    lines = np.array([[1.0, 0, -1], [1, 1e-9, -1], [0, 1, 2]]).T
    store, seam = quadrants(lines)
    assert not seam
    assert store.corners[:, :, 0].T.tolist() == [pytest.approx([1.0, -2.0, 1.0])] * 4
    assert quadrants(np.array([[1.0, 0, -1], [2, 0, 5]]).T)[1]
    assert quadrants(np.array([[0.0, 0, 1]]).T) == (None, False)


# -- cones


@given(st.lists(st.floats(-np.pi, np.pi), min_size=1, max_size=6), st.integers(1, 5))
@settings(deadline=None, max_examples=200)
def test_cones_are_the_directions_no_half_plane_ends(angles, split):
    """Against all directions of a fine circle; the normals are given in two steps."""
    angles = np.array(angles)
    normals = Normals.none(1)
    for part in (angles[:split], angles[split:]):
        if len(part):
            normals = normals.joined(np.array([0]), np.cos(part)[None], np.sin(part)[None])
    free, ways, spread = normals.cones()
    circle = np.linspace(0, 2 * np.pi, 7201)[:-1]
    good = (np.cos(circle[:, None] - angles) >= 0).all(1)
    if not free[0]:
        assert good.mean() < 1e-3
        return
    assert spread[0] == pytest.approx(good.mean() * 2 * np.pi, abs=3e-3)
    assert (np.cos(np.arctan2(ways[0, :, 1], ways[0, :, 0])[:, None] - angles) >= -1e-9).all()
    reached = towards(ways, spread)[0]
    x, y = np.cos(circle[good]), np.sin(circle[good])
    for mark, seen in zip(reached, (-x, x, -y, y), strict=True):
        assert mark or not (seen > 1e-3).any()


def test_strips_rays_half_planes_and_the_plane():
    def cone(*angles):
        angles = np.array([angles])
        found = Normals.none(1)
        if angles.size:
            found = found.joined(np.array([0]), np.cos(angles), np.sin(angles))
        free, ways, spread = found.cones()
        return free[0], spread[0], towards(ways, spread)[0].tolist()

    assert cone() == (True, 2 * np.pi, [True] * 4)
    assert cone(0.0) == (True, np.pi, [False, True, True, True])
    assert cone(0.0, np.pi) == (True, 0.0, [False, False, True, True])
    assert cone(0.0, np.pi, 1.0) == (True, 0.0, [False, False, False, True])
    assert cone(0.0, np.pi, 1.0, -1.0)[0] is np.False_
    assert cone(0.0, np.pi / 2) == (True, pytest.approx(np.pi / 2), [False, True, False, True])


# -- the domain


def test_cells_that_wait_are_finished_later_and_none_twice():
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in pairwise((2, 9, 9, 2))]
    net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).double()
    with torch.no_grad():
        layers[0].bias *= 3
    origin, basis = torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    box = np.array([[-4.0, -4.0], [4.0, 4.0]])
    runs = {}
    for limit in (1, 7, 10_000):
        blocks = list(sweep(instances(net)[0], Polygons(origin, basis, box, limit=limit)))
        assert all(len(block) <= limit for block, _ in blocks)
        runs[limit] = np.sort(np.concatenate([areas(block.store.corners) for block, _ in blocks]))
    assert len(runs[1]) > 20
    assert runs[10_000].sum() == pytest.approx(64.0, rel=1e-12)
    for limit in (1, 7):
        assert runs[limit] == pytest.approx(runs[10_000], rel=1e-9)
