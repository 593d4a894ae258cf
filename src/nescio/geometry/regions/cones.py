"""Directions in which a polygon has no end, from the normals of its half-planes.

A polygon `n_i . x >= c_i` is unbounded along d if all `n_i . d >= 0`. With all normals in a
sector of angle width <= pi the directions form the dual sector, of angle pi - width; with wider
normals the polygon is bounded.
"""

from dataclasses import dataclass

import numpy as np

from nescio.geometry.regions.convex import TOLERANCE, Bools, Floats, Ints

TURN = 2 * np.pi


@dataclass(frozen=True)
class Normals:
    """The sector of each row's normals: two ends and one between (or an end), as angles `(R, 3)`.

    NaN: no normal yet. `bounded` rows have normals all round.
    """

    angles: Floats
    bounded: Bools

    @classmethod
    def none(cls, rows: int) -> "Normals":
        return cls(np.full((rows, 3), np.nan), np.zeros(rows, dtype=bool))

    def __getitem__(self, rows: Ints) -> "Normals":
        return Normals(self.angles[rows], self.bounded[rows])

    def joined(self, rows: Ints, x: Floats, y: Floats) -> "Normals":
        """With further normals `(len(rows), U)` of some rows."""
        new = np.arctan2(y, x)
        new[(x == 0) & (y == 0)] = np.nan
        angles, bounded = self.angles.copy(), self.bounded.copy()
        angles[rows], bounded[rows] = _sector(np.concatenate([self.angles[rows], new], 1))
        return Normals(angles, bounded | self.bounded)

    def cones(self) -> tuple[Bools, Floats, Floats]:
        """Whether each row has no end, its extreme directions `(R, 2, 2)`, the angle between."""
        low, middle, high = self.angles.T
        width = high - low
        free = ~self.bounded
        spread = np.clip(np.pi - width, 0.0, None)
        spread[spread <= TOLERANCE] = 0.0
        start, stop = high - np.pi / 2, low + np.pi / 2
        inner = np.minimum(middle - low, high - middle)
        both_ways = (spread == 0) & (inner <= TOLERANCE)
        start = np.where(both_ways, stop + np.pi, start)
        plane = np.isnan(low)  # no normal at all: every direction
        spread = np.where(plane, TURN, spread)
        start, stop = np.where(plane, 0.0, start), np.where(plane, 0.0, stop)
        ways = np.stack([np.cos([start, stop]), np.sin([start, stop])], -1).transpose(1, 0, 2)
        ways[~free], spread[~free] = np.nan, np.nan
        return free, ways, spread


def _sector(angles: Floats) -> tuple[Floats, Bools]:
    """The smallest sector of each row of angles, NaN left out, and whether it is above pi."""
    ordered = np.sort(angles % TURN, 1)  # NaN last
    last = ordered.shape[1] - 1 - np.isnan(ordered).sum(1)
    rows = np.arange(len(ordered))
    known = last >= 0
    end = ordered[rows, np.maximum(last, 0)][:, None]
    ordered = np.where(np.isnan(ordered), end, ordered)  # repeats the last: no gap
    gaps = np.diff(ordered, axis=1, append=ordered[:, :1] + TURN)
    place = gaps.argmax(1)
    turned = np.where(np.arange(ordered.shape[1]) <= place[:, None], ordered + TURN, ordered)
    low, high = turned.min(1), turned.max(1)
    inner = np.minimum(turned - low[:, None], high[:, None] - turned)
    found = np.stack([low, turned[rows, inner.argmax(1)], high], 1)
    found[~known] = np.nan
    too_wide: Bools = known & (high - low > np.pi + TOLERANCE)
    return found, too_wide


def towards(ways: Floats, spread: Floats) -> Bools:
    """Whether each cone has a direction with -x, +x, -y, +y: `(R, 4)`."""
    angle = np.arctan2(ways[:, 0, 1], ways[:, 0, 0]) + spread / 2
    middle = np.stack([np.cos(angle), np.sin(angle)], -1)
    tried = np.concatenate([ways, middle[:, None]], 1)  # (R, 3, 2)
    found = np.stack([(-tried[..., 0]), tried[..., 0], -tried[..., 1], tried[..., 1]], -1)
    with np.errstate(invalid="ignore"):
        reached = np.asarray((found > TOLERANCE).any(1))
    reached |= (spread >= TURN)[:, None]
    return reached
