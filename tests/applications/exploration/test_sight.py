"""Rays against walls and disks: whole arrays beside a plain solution of one at a time."""

import math

import numpy as np
import pytest

from nescio.applications.exploration.sight import from_walls, to_disks, to_walls

RNG = np.random.default_rng(0)


def points(*shape):
    return RNG.uniform(-3, 3, shape) + 1j * RNG.uniform(-3, 3, shape)


def wall_by_linear_equations(start, way, wall):
    """`start + t way = wall[0] + s (wall[1] - wall[0])` by Cramer-free elimination."""
    along = wall[1] - wall[0]
    system = np.array([[way.real, -along.real], [way.imag, -along.imag]])
    gap = wall[0] - start
    t, s = np.linalg.solve(system, [gap.real, gap.imag])
    return t if t >= 0 and 0 <= s <= 1 else math.inf


def disk_by_steps(start, way, center, radius, reach=12.0, steps=240_000):
    """The first of many points along a ray inside the disk."""
    along = np.linspace(0, reach, steps)
    inside = np.abs(start + along * way - center) < radius
    return along[inside.argmax()] if inside.any() else math.inf


def test_the_nearest_wall_solves_the_equations():
    start, way, walls = points(6, 4), points(6, 4), points(5, 2)
    found = to_walls(start, way, walls)
    for index in np.ndindex(6, 4):
        wanted = min(wall_by_linear_equations(start[index], way[index], wall) for wall in walls)
        assert found[index] == pytest.approx(wanted, abs=1e-9)


def test_a_parallel_wall_is_not_met():
    wall = np.array([[1 + 1j, 5 + 1j]])
    assert to_walls(np.array([0j, 1j]), np.array([1 + 0j, 1 + 0j]), wall).tolist() == [math.inf] * 2


def test_disks_begin_where_steps_along_the_ray_enter_them():
    start, centers = points(5), points(5, 3)
    way = np.exp(1j * RNG.uniform(0, 2 * math.pi, 5))
    found = to_disks(start, way, centers, 0.8)
    for row, column in np.ndindex(5, 3):
        wanted = disk_by_steps(start[row], way[row], centers[row, column], 0.8)
        assert found[row, column] == pytest.approx(wanted, abs=1e-4)


def test_inside_a_disk_the_distance_is_zero_and_behind_it_is_infinite():
    start, way = np.array([0j, 2 + 0j, -2 + 0j]), np.ones(3, dtype=complex)
    assert to_disks(start, way, np.zeros((3, 1), complex), 1.0).ravel().tolist() == [0, math.inf, 1]


def test_the_distance_from_walls_is_that_of_the_nearest_of_many_points_on_them():
    some, walls = points(7), points(3, 2)
    share = np.linspace(0, 1, 20_001)
    every = (walls[:, :1] + share * (walls[:, 1:] - walls[:, :1])).ravel()
    wanted = np.abs(some[:, None] - every).min(1)
    np.testing.assert_allclose(from_walls(some, walls), wanted, atol=1e-4)
