"""A plane with walls and items, as in the reinforcement learning demo of ConvNetJS (Karpathy).

An agent with two wheels looks along nine eyes, 0.25 radians apart, and sees how far the nearest
thing is and of which kind: a wall, a good item or a bad one. Points are complex numbers, heading
`exp(1j * angle)`. All runs move at once: arrays are `(S, ...)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import torch

from nescio.applications.exploration.sight import Array, from_walls, to_disks, to_walls
from nescio.core import generator

WHEELS = np.array([(1, 1), (0.8, 1), (1, 0.8), (0.5, 0), (0, 0.5)])  # turn of left and right
EYES, RANGE = 0.25 * np.arange(-4, 5), 85.0  # angles from the heading, and how far they see
KINDS = WALL, GOOD, BAD = range(3)
MEALS = np.array([0.0, 5.0, -6.0])  # reward of touching a kind
WIDTH, HEIGHT, EDGE = 700.0, 500.0, 10.0
AXLE, RADIUS = 5.0, 10.0  # from the middle to a wheel; of the agent and of items
ITEMS, AGE = 30, 5000  # of one run; decisions after which an untouched item is replaced
STOCK, TRIES = 512, 8  # items drawn at once, and positions tried for each


def _walls() -> Array:
    """Ends of the walls: the outer box, and two rooms that are open below."""
    box = [(EDGE, EDGE), (WIDTH - EDGE, EDGE), (WIDTH - EDGE, HEIGHT - EDGE), (EDGE, HEIGHT - EDGE)]
    rooms = [[(x, 100.0), (x, 400.0), (x + 200, 400.0), (x + 200, 100.0)] for x in (100.0, 400.0)]
    ways: list[list[tuple[float, float]]] = [[*box, box[0]], *rooms]
    ends = [pair for way in ways for pair in pairwise(way)]
    return np.array(ends, dtype=float).view(complex)[..., 0]  # (W, 2)


WALLS = _walls()


@dataclass(frozen=True, kw_only=True)
class World:
    """Where agents and items of S runs are; a value, `after` gives the next."""

    seeds: tuple[int, ...]  # of the runs
    at: Array  # complex (S,)
    angle: Array  # (S,)
    items: Array  # complex (S, ITEMS)
    kinds: Array  # (S, ITEMS), GOOD or BAD
    ages: Array  # (S, ITEMS), decisions
    drawn: Array  # (S,), items drawn so far

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Distance of the nearest thing along each eye, at most RANGE, and its kind `(S, EYES)`.

        Where nothing is in range the kind is -1.
        """
        start = self.at[:, None]
        way = np.exp(1j * (self.angle[:, None] + EYES))
        wall = to_walls(start, way, WALLS)
        items = to_disks(start, way, self.items[:, None], RADIUS)  # (S, EYES, ITEMS)
        first = items.argmin(-1)
        item = np.take_along_axis(items, first[..., None], -1)[..., 0]
        kind = np.where(wall <= item, WALL, np.take_along_axis(self.kinds, first, 1))
        far = np.minimum(wall, item)
        return np.minimum(far, RANGE), np.where(far < RANGE, kind, -1)

    def after(self, actions: Array) -> tuple["World", Array]:
        """The worlds after one decision in each, and the rewards `(S,)`."""
        left, right = WHEELS[actions].T
        turn = 0.5 * (np.exp(-1j * left) - np.exp(1j * right))
        move = turn * AXLE * 1j * np.exp(1j * self.angle)
        free = to_walls(self.at, move, WALLS) > 1
        moved = replace(
            self,
            at=np.where(free, self.at + move, self.at),
            angle=np.mod(self.angle + right - left, 2 * np.pi),
            ages=self.ages + 1,
        )
        touched = moved._touched()
        meals = np.where(touched, MEALS[self.kinds], 0).sum(1)
        after = moved._replaced(touched | (moved.ages >= AGE))
        return after, after._comfort(actions) + meals

    def _touched(self) -> Array:
        """Which items the agents touch, with no wall between."""
        way = self.items - self.at[:, None]
        near = np.abs(way) < 2 * RADIUS
        if near.any():
            near &= to_walls(np.broadcast_to(self.at[:, None], way.shape), way, WALLS) > 1
        return near

    def _comfort(self, actions: Array) -> Array:
        """Reward of not looking at walls, and of driving straight on in the open."""
        far, kind = self.seen
        open_view = np.minimum(2 * np.where(kind == WALL, far / RANGE, 1).mean(1), 1)
        straight = (actions == 0) & (open_view > 0.75)
        return open_view + np.where(straight, 0.1 * open_view, 0)

    def _replaced(self, gone: Array) -> "World":
        """The worlds with new items in place of some: a function of the run and their number."""
        if not gone.any():
            return self
        number = self.drawn[:, None] + gone.cumsum(1) - 1
        rows, columns = gone.nonzero()
        points, kinds = _items(self.seeds, rows, number[rows, columns])
        items, sorts, ages = self.items.copy(), self.kinds.copy(), self.ages.copy()
        items[rows, columns], sorts[rows, columns], ages[rows, columns] = points, kinds, 0
        return replace(self, items=items, kinds=sorts, ages=ages, drawn=self.drawn + gone.sum(1))


def first_world(seeds: Sequence[int]) -> World:
    """Agents in the middle of the lower edge, heading up, among items whose ages are spread out."""
    runs = len(seeds)
    places = np.arange(runs).repeat(ITEMS)
    numbers = np.tile(np.arange(ITEMS), runs)
    items, kinds = _items(tuple(seeds), places, numbers)
    return World(
        seeds=tuple(seeds),
        at=np.full(runs, WIDTH / 2 + 50j),
        angle=np.full(runs, np.pi / 2),
        items=items.reshape(runs, ITEMS),
        kinds=kinds.reshape(runs, ITEMS),
        ages=np.tile(AGE * np.arange(ITEMS) // ITEMS, (runs, 1)),
        drawn=np.full(runs, ITEMS),
    )


def _items(seeds: tuple[int, ...], rows: Array, numbers: Array) -> tuple[Array, Array]:
    """Positions and kinds of the items with some numbers, each of the run in its row."""
    blocks = numbers // STOCK
    points, kinds = np.empty(len(rows), dtype=complex), np.empty(len(rows), dtype=int)
    for block in np.unique(blocks):  # hardly ever more than one
        own = blocks == block
        stock = _stock(seeds, int(block))
        place = rows[own], numbers[own] % STOCK
        points[own], kinds[own] = stock[0][place], stock[1][place]
    return points, kinds


@lru_cache(maxsize=16)
def _stock(seeds: tuple[int, ...], block: int) -> tuple[Array, Array]:
    """Positions and kinds `(S, STOCK)` of the next items of each run, clear of the walls."""
    size = (STOCK, 2 * TRIES + 1)
    each = [torch.rand(size, generator=generator(seed, "maze", block)) for seed in seeds]
    draws = torch.stack(each).double().numpy()
    across, up = draws[..., 1::2], draws[..., 2::2]  # (S, STOCK, TRIES)
    margin = EDGE + RADIUS
    tried = margin + across * (WIDTH - 2 * margin) + 1j * (margin + up * (HEIGHT - 2 * margin))
    first = (from_walls(tried, WALLS) >= RADIUS).argmax(-1)
    points = np.take_along_axis(tried, first[..., None], -1)[..., 0]
    return points, np.where(draws[..., 0] < 0.5, GOOD, BAD)
