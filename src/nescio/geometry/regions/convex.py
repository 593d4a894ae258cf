"""Many convex polygons at once: on which side of a line their corners lie, and how to cut them.

Corners are arrays `(D, n, P)`: D = 2 for bounded polygons, D = 3 for homogeneous coordinates
(x, y, w) with w = 1 for a point and w = 0 for a direction in which the polygon has no end. They run
counter-clockwise; a polygon with fewer than P corners repeats its last one. Lines are `(3, n)`:
`h0 x + h1 y + h2 w`.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Halves: TypeAlias = tuple[Floats, Ints]  # corners and how many

TOLERANCE = 1e-12  # relative to the terms of a line's value: closer to 0 is on the line


def sides(corners: Floats, lines: Floats, reach: Floats | None) -> tuple[Floats, Floats]:
    """Values `(n, P)` of a line at the corners of its polygon, and what counts as 0 there.

    reach: the largest |x| and |y| of a box; None: those of each polygon.
    """
    h0, h1, h2 = (line[:, None] for line in lines)
    if len(corners) == 2:
        values: Floats = corners[0] * h0
        values += corners[1] * h1
        values += h2
        ends = reach if reach is not None else np.abs(corners).max(2)[..., None]
        return values, TOLERANCE * (np.abs(h0) * ends[0] + np.abs(h1) * ends[1] + np.abs(h2))
    x, y, w = corners
    values = x * h0 + y * h1 + w * h2
    across, along = (np.abs(c * w).max(1)[:, None] for c in (x, y))
    near = np.abs(h0) * across + np.abs(h1) * along + np.abs(h2)
    return values, TOLERANCE * np.where(w > 0, near, np.abs(h0) + np.abs(h1))


def crosses(corners: Floats, lines: Floats, reach: Floats | None) -> Bools:
    """Whether each line has corners of its polygon strictly on both sides."""
    values, zero = sides(corners, lines, reach)
    if zero.shape[1] == 1:
        found: Bools = (values.max(1) > zero[:, 0]) & (values.min(1) < -zero[:, 0])
        return found
    return np.asarray((values > zero).any(1) & (values < -zero).any(1))


def halves(
    corners: Floats, counts: Ints, lines: Floats, reach: Floats | None
) -> tuple[Halves, Halves]:
    """Both parts of polygons that their lines cross: where the line is positive, and the other."""
    values, zero = sides(corners, lines, reach)
    values[np.abs(values) <= zero] = 0.0
    up = values > 0
    first, last = _run(up, values)
    length = (last - first) % counts
    n, width = values.shape
    rows = np.arange(n)
    leave, free_leave = _crossing(corners, values, rows, (last - 1) % counts, last)
    enter, free_enter = _crossing(corners, values, rows, first, (first - 1) % counts)
    source = np.concatenate([corners, leave[..., None], enter[..., None]], 2)

    above = length + 2
    rest = counts - length
    below = rest + free_leave + free_enter
    step = np.arange(max(int(above.max()), int(below.max())))[None]
    start = (rows * (width + 2))[:, None]
    place = (first[:, None] + step) % counts[:, None]
    place = np.where(step < length[:, None], place, width + (step > length[:, None]))
    step = step - free_leave[:, None]
    other = (last[:, None] + step) % counts[:, None]
    closing = np.where(free_enter, width + 1, (first - 1) % counts)[:, None]
    other = np.where(step < rest[:, None], other, closing)
    other[:, 0] = np.where(free_leave, width, other[:, 0])
    flat = source.reshape(len(corners), -1)
    return (flat[:, place + start], above), (flat[:, other + start], below)


def _run(up: Bools, values: Floats) -> tuple[Ints, Ints]:
    """Where the one run of positive corners starts, and the place after its end."""
    before = np.roll(up, 1, 1)  # the last column repeats the last corner
    begins = up & ~before
    if np.count_nonzero(begins) > len(up):  # rounding next to the tolerance made two runs
        for row in np.flatnonzero(begins.sum(1) > 1):
            up[row] = _connected(up[row], int(values[row].argmax()))
        before = np.roll(up, 1, 1)
        begins = up & ~before
    return begins.argmax(1), (~up & before).argmax(1)


def _connected(up: Bools, top: int) -> Bools:
    """The run of a row that holds its largest value."""
    size = len(up)
    kept = np.zeros_like(up)
    for way in (1, -1):
        place = top
        while up[place] and not (kept[place] and place != top):
            kept[place] = True
            place = (place + way) % size
    return kept


def _crossing(
    corners: Floats, values: Floats, rows: Ints, inside: Ints, outside: Ints
) -> tuple[Floats, Ints]:
    """The point of each line on an edge, and whether it is a new corner (1) or an old one (0)."""
    high, low = values[rows, inside], values[rows, outside]
    start, stop = corners[:, rows, inside], corners[:, rows, outside]
    point = (high * stop - low * start) / (high - low)
    if len(corners) == 3:
        point = normal_form(point)
    free = low != 0
    return np.where(free, point, stop), free.astype(np.int64)


def normal_form(points: Floats) -> Floats:
    """Homogeneous points with w = 1, directions of length 1."""
    x, y, w = points
    size = np.where(w > 0, w, np.hypot(x, y))
    made: Floats = np.stack([x / size, y / size, np.where(w > 0, 1.0, 0.0)])
    return made


def widened(corners: Floats, width: int) -> Floats:
    """The same polygons with room for `width` corners each."""
    missing = width - corners.shape[2]
    if missing <= 0:
        return corners
    return np.concatenate([corners, np.repeat(corners[:, :, -1:], missing, 2)], 2)


def areas(corners: Floats) -> Floats:
    """Areas of bounded polygons, from their first corner."""
    x, y = corners[0] - corners[0][:, :1], corners[1] - corners[1][:, :1]
    twice: Floats = (x[:, 1:-1] * y[:, 2:] - x[:, 2:] * y[:, 1:-1]).sum(1)
    return 0.5 * twice


def box_corners(low: Any, high: Any) -> Floats:
    """A box as one polygon."""
    (left, bottom), (right, top) = low, high
    return np.array([[[left, right, right, left]], [[bottom, bottom, top, top]]], dtype=np.float64)


TURN = 2 * np.pi


@dataclass(frozen=True)
class Normals:
    """The sector of each row's normals: two ends and one between (or an end), as angles `(R, 3)`.

    NaN: no normal yet. `bounded` rows have normals all round. A polygon `n_i . x >= c_i` has no end
    along d if all `n_i . d >= 0`: with all normals in a sector of angle width <= pi the directions
    form the dual sector, of angle pi - width.
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
