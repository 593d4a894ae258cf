"""The maze beside a plain version of it that moves one agent and looks along one eye at a time."""

import cmath
import math
from dataclasses import replace

import numpy as np
import pytest

from nescio.applications.exploration import maze_world as maze
from nescio.applications.exploration.maze_world import BAD, GOOD, WALL, first_world
from nescio.applications.exploration.sight import from_walls

ACTIONS = np.random.default_rng(1)


def wander(world, steps, actions=5):
    for _ in range(steps):
        world, _ = world.after(ACTIONS.integers(0, actions, len(world.seeds)))
    return world


def crossing(a, b, c, d):
    """How far along the way from a to b it meets the wall from c to d, or None."""
    way, wall = b - a, d - c
    slant = way.real * wall.imag - way.imag * wall.real
    if slant == 0:
        return None
    gap = c - a
    far = (gap.real * wall.imag - gap.imag * wall.real) / slant
    share = (gap.real * way.imag - gap.imag * way.real) / slant
    return far if far >= 0 and 0 <= share <= 1 else None


def blocked(a, b):
    return any(
        (far := crossing(a, b, *wall)) is not None and far <= 1 for wall in maze.WALLS.tolist()
    )


def plain_eye(at, angle, items, kinds):
    """Distance and kind of the nearest thing along one eye."""
    best, kind = maze.RANGE, -1
    way = cmath.exp(1j * angle)
    for wall in maze.WALLS.tolist():
        far = crossing(at, at + way, *wall)
        if far is not None and far < best:
            best, kind = far, WALL
    for item, sort in zip(items, kinds, strict=True):
        gap = (item - at) * way.conjugate()
        if abs(gap.imag) >= maze.RADIUS:
            continue
        half = math.sqrt(maze.RADIUS**2 - gap.imag**2)
        if gap.real + half >= 0 and max(gap.real - half, 0) < best:
            best, kind = max(gap.real - half, 0), sort
    return best, kind


def plain_step(at, angle, items, kinds, action):
    """Where one agent goes, which items it touches, and its reward."""
    left, right = maze.WHEELS[action]
    wheel = maze.AXLE * 1j * cmath.exp(1j * angle)  # from the middle to the left wheel
    one = (at - wheel) + wheel * cmath.exp(-1j * left)  # the left motor turns about the right wheel
    two = (at + wheel) - wheel * cmath.exp(1j * right)
    new = (one + two) / 2
    if blocked(at, new):
        new = at
    angle = (angle - left + right) % (2 * math.pi)
    touched = [abs(i - new) < 2 * maze.RADIUS and not blocked(new, i) for i in items]
    meals = sum(maze.MEALS[kind] for kind, one in zip(kinds, touched, strict=True) if one)
    return new, angle, touched, meals


def plain_comfort(eyes, action):
    shares = [far / maze.RANGE if kind == WALL else 1.0 for far, kind in eyes]
    view = min(1.0, 2 * sum(shares) / len(shares))
    return view * (1.1 if action == 0 and view > 0.75 else 1.0)


def test_worlds_move_and_see_as_the_plain_version_does():
    world = wander(first_world(range(6)), 40)
    for _ in range(150):
        actions = ACTIONS.integers(0, 5, 6)
        after, rewards = world.after(actions)
        far, kind = after.seen
        for run in range(6):
            at, angle, touched, meals = plain_step(
                world.at[run], world.angle[run], world.items[run], world.kinds[run], actions[run]
            )
            assert after.at[run] == pytest.approx(at, abs=1e-9)
            assert after.angle[run] == pytest.approx(angle, abs=1e-9)
            same = after.items[run] == world.items[run]
            old = world.ages[run] + 1 >= maze.AGE
            assert (~same).tolist() == (np.array(touched) | old).tolist()
            eyes = [
                plain_eye(at, angle + turn, after.items[run], after.kinds[run])
                for turn in maze.EYES
            ]
            np.testing.assert_allclose(far[run], [eye[0] for eye in eyes], atol=1e-9)
            assert kind[run].tolist() == [eye[1] for eye in eyes]
            assert rewards[run] == pytest.approx(meals + plain_comfort(eyes, actions[run]))
        world = after


def facing(item, kind):
    """A world with one item in front of an agent that heads up, all others out of the way."""
    world = first_world([3])
    items = np.full((1, maze.ITEMS), 650 + 450j)
    items[0, 0] = item
    return replace(world, items=items, kinds=np.full((1, maze.ITEMS), kind))


@pytest.mark.parametrize(("kind", "meal"), [(GOOD, 5.0), (BAD, -6.0)])
def test_an_item_is_seen_by_the_middle_eye_then_eaten_and_replaced(kind, meal):
    world = facing(350 + 80j, kind)  # the agent starts at 350 + 50j
    far, kinds = world.seen
    assert far[0, 4] == pytest.approx(20)
    assert kinds[0, 4] == kind
    rewards = []
    for _ in range(4):
        world, reward = world.after(np.array([0]))
        rewards.append(reward[0])
    assert max(rewards, key=abs) == pytest.approx(meal + 1.1)
    assert world.drawn[0] == maze.ITEMS + 1
    assert abs(world.items[0, 0] - (350 + 80j)) > 0


def test_an_item_behind_a_wall_is_neither_seen_nor_touched():
    at, item = 95 + 250j, 113 + 250j  # the wall is at 100
    world = replace(facing(item, GOOD), at=np.array([at]), angle=np.zeros(1))
    far, kinds = world.seen
    assert (far[0, 4], kinds[0, 4]) == (pytest.approx(5), WALL)
    after, reward = world.after(np.array([3]))
    assert after.drawn[0] == maze.ITEMS
    assert reward[0] < 1.2


def test_agents_stay_inside_the_walls_and_off_them():
    world = first_world(range(4))
    for _ in range(300):
        world, rewards = world.after(
            np.zeros(4, int) if ACTIONS.random() < 0.8 else np.ones(4, int)
        )
        assert np.isfinite(rewards).all()
        assert (world.at.real > maze.EDGE).all()
        assert (world.at.real < maze.WIDTH - maze.EDGE).all()
        assert (world.at.imag > maze.EDGE).all()
        assert (world.at.imag < maze.HEIGHT - maze.EDGE).all()


def test_an_old_item_is_replaced():
    world = facing(650 + 450j, GOOD)
    world = replace(world, ages=np.full((1, maze.ITEMS), maze.AGE - 1))
    after, _ = world.after(np.array([0]))
    assert after.drawn[0] == 2 * maze.ITEMS
    assert (after.ages == 0).all()


def test_a_run_in_a_stack_is_the_run_alone():
    actions = ACTIONS.integers(0, 5, (700, 3))
    together, alone = first_world([4, 5, 6]), first_world([5])
    for row in actions:
        together, rewards = together.after(row)
        alone, reward = alone.after(row[1:2])
        assert reward[0] == rewards[1]
    assert together.drawn[1] == alone.drawn[0] > maze.ITEMS
    np.testing.assert_array_equal(together.items[1], alone.items[0])


def test_items_beyond_the_first_stock_are_other_items():
    number = np.array([1, maze.STOCK + 1])
    places, _ = maze._items((7,), np.zeros(2, int), number)
    assert places[0] != places[1]


def test_items_are_inside_and_clear_of_the_walls_and_half_of_them_are_good():
    rows, number = np.zeros(3000, int), np.arange(3000)
    places, kinds = maze._items((7,), rows, number)
    assert from_walls(places, maze.WALLS).min() >= maze.RADIUS
    assert places.real.min() > maze.EDGE
    assert places.imag.max() < maze.HEIGHT - maze.EDGE
    assert set(kinds.tolist()) == {GOOD, BAD}
    assert np.mean(kinds == GOOD) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(3000))
