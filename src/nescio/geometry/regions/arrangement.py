"""A store of convex polygons, and cutting each of them by its own list of lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nescio.geometry.regions.convex import (
    TOLERANCE,
    Bools,
    Floats,
    Ints,
    crosses,
    halves,
    sides,
    widened,
)

CHUNK = 1 << 15  # pairs of a polygon and a line that are looked at together


@dataclass(frozen=True)
class Store:
    """Polygons: corners `(D, R, P)`, how many each has, and the reach of the box (or None)."""

    corners: Floats
    counts: Ints
    reach: Floats | None = None

    def __getitem__(self, rows: Ints) -> "Store":
        counts = self.counts[rows]
        width = int(counts.max()) if len(counts) else self.corners.shape[2]
        return Store(self.corners[:, rows, :width], counts, self.reach)

    def middle(self) -> tuple[Floats, Floats]:
        """The middle of the range of the corners and half its size, `(3, R)` each."""
        low, high = self.corners.min(2), self.corners.max(2)
        center, size = (low + high) / 2, (high - low) / 2
        if len(self.corners) == 2:
            rows = len(self.counts)
            center = np.concatenate([center, np.ones((1, rows))])
            size = np.concatenate([size, np.zeros((1, rows))])
        return center, size

    def inside(self) -> Floats:
        """A point inside each polygon, `(3, R)`."""
        point: Floats = self.corners.mean(2)
        if len(self.corners) == 2:
            point = np.concatenate([point, np.ones((1, len(self.counts)))])
        return point

    def touching(self, box: Floats) -> Ints:
        """Polygons with a corner on the border of the box."""
        close = 1e-9 * np.abs(box).max()
        low, high = box[:, :, None, None]
        on = (self.corners <= low + close) | (self.corners >= high - close)
        return np.flatnonzero(on.any((0, 2)))

    def cut(self, rows: Ints, lines: Floats) -> tuple["Store", Ints | None]:
        """Cut polygons by lines `(3, n)`, `rows` sorted; the old row of each new one, or None."""
        keep = _crossing(self.corners, rows, lines, self.reach)
        rows, lines = rows[keep], lines[:, keep]
        if len(rows) == 0:
            return self, None
        growing = _Growing(self)
        names = np.arange(len(rows))
        while len(rows):
            starts, sizes = _runs(rows)
            chosen = starts + sizes // 2
            cut = rows[chosen]
            first, second = halves(
                growing.corners[:, cut], growing.counts[cut], lines[:, names[chosen]], self.reach
            )
            growing.put(cut, *first)
            new = growing.append(cut, *second)
            left = np.ones(len(rows), dtype=bool)
            left[chosen] = False
            slot = np.repeat(np.arange(len(cut)), sizes)[left]
            names = names[left]
            above = _crossing(first[0], slot, lines, self.reach, names)
            below = _crossing(second[0], slot, lines, self.reach, names)
            rows = np.concatenate([cut[slot[above]], new[slot[below]]])
            names = np.concatenate([names[above], names[below]])
        return growing.done(self.reach)

    def cut_largest(self, rows: Ints, windows: Floats) -> tuple["Store", Ints | None]:
        """Cut polygons where the largest of W lines `(3, n, W)` changes; `rows` are sorted."""
        keep = _contested(self.corners, rows, windows, self.reach)
        rows, windows = rows[keep], windows[:, keep]
        if len(rows) == 0:
            return self, None
        growing = _Growing(self)
        names = np.arange(len(rows))
        while len(rows):
            starts, sizes = _runs(rows)
            chosen = starts + sizes // 2
            cut = rows[chosen]
            owner, corners, counts = largest_cells(
                growing.corners[:, cut], growing.counts[cut], windows[:, names[chosen]], self.reach
            )
            first = np.searchsorted(owner, np.arange(len(cut)))
            other = np.ones(len(owner), dtype=bool)
            other[first] = False
            growing.put(cut, corners[:, first], counts[first])
            place = np.empty(len(owner), dtype=np.int64)
            place[first] = cut
            place[other] = growing.append(cut[owner[other]], corners[:, other], counts[other])
            left = np.ones(len(rows), dtype=bool)
            left[chosen] = False
            begins = np.cumsum(sizes - 1) - (sizes - 1)  # of the waiting windows of each polygon
            slot, taken = ranges(begins[owner], (sizes - 1)[owner])
            names = names[left][taken]
            keep = _contested(corners, slot, windows, self.reach, names)
            slot, names = slot[keep], names[keep]
            order = np.argsort(place[slot], kind="stable")
            rows, names = place[slot][order], names[order]
        return growing.done(self.reach)


class _Growing:
    """A store with spare room: rows are replaced and appended without copying it every time."""

    def __init__(self, store: Store) -> None:
        self.size = len(store.counts)
        self.corners = widened(store.corners, store.corners.shape[2] + 2)
        self.counts = store.counts.copy()
        self.parents = np.arange(self.size)

    def put(self, rows: Ints, corners: Floats, counts: Ints) -> None:
        width = corners.shape[2]
        if width > self.corners.shape[2]:
            self.corners = widened(self.corners, width + 2)
        self.corners[:, rows, :width] = corners
        self.corners[:, rows, width:] = corners[:, :, -1:]
        self.counts[rows] = counts

    def append(self, origins: Ints, corners: Floats, counts: Ints) -> Ints:
        """New rows, cut off the rows `origins`; their places."""
        new = np.arange(self.size, self.size + len(counts))
        self.size += len(counts)
        if self.size > len(self.counts):
            room = max(self.size, 2 * len(self.counts)) - len(self.counts)
            self.corners = np.concatenate(
                [self.corners, np.empty((len(self.corners), room, self.corners.shape[2]))], 1
            )
            self.counts = np.concatenate([self.counts, np.empty(room, dtype=np.int64)])
            self.parents = np.concatenate([self.parents, np.empty(room, dtype=np.int64)])
        self.put(new, corners, counts)
        self.parents[new] = self.parents[origins]
        return new

    def done(self, reach: Floats | None) -> tuple[Store, Ints]:
        counts = self.counts[: self.size].copy()
        width = int(counts.max())
        corners = self.corners[:, : self.size, :width].copy()
        return Store(corners, counts, reach), self.parents[: self.size].copy()


def ranges(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """The numbers of several ranges one after the other, and to which range each belongs."""
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return owner, np.arange(len(owner)) - before[owner] + starts[owner]


def _runs(rows: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal values of a sorted list starts, and how long it is."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return starts, np.diff(starts, append=len(rows))


def _crossing(
    corners: Floats, rows: Ints, lines: Floats, reach: Floats | None, names: Ints | None = None
) -> Bools:
    """Which pairs of a polygon and a line cross."""
    found = np.empty(len(rows), dtype=bool)
    for low in range(0, len(rows), CHUNK):
        part = slice(low, low + CHUNK)
        chosen = lines[:, part if names is None else names[part]]
        found[part] = crosses(corners[:, rows[part]], chosen, reach)
    return found


def _contested(
    corners: Floats, rows: Ints, windows: Floats, reach: Floats | None, names: Ints | None = None
) -> Bools:
    """Which pairs of a polygon and a window have no member that is largest at all corners."""
    found = np.empty(len(rows), dtype=bool)
    members = windows.shape[2]
    step = max(1, CHUNK // members)
    for low in range(0, len(rows), step):
        part = slice(low, low + step)
        chosen = windows[:, part if names is None else names[part]]
        n = chosen.shape[1]
        values, zero = sides(
            np.repeat(corners[:, rows[part]], members, 1), chosen.reshape(3, -1), reach
        )
        values, zero = values.reshape(n, members, -1), zero.reshape(n, members, -1).max(1)
        behind = values.max(1)[:, None] - values  # (n, W, P)
        found[part] = ~(behind <= zero[:, None]).all(2).any(1)
    return found


def largest_cells(
    corners: Floats, counts: Ints, windows: Floats, reach: Floats | None
) -> tuple[Ints, Floats, Ints]:
    """The parts of polygons on which each of the W lines `(3, n, W)` is the largest.

    Returns the polygon of each part, in order, and the parts' corners. Of equal lines the first
    wins. There is no cut between two lines that are not largest.
    """
    n, members = windows.shape[1:]
    owner = np.repeat(np.arange(n), members)
    winner = np.tile(np.arange(members), n)
    parts, sizes = corners[:, owner], counts[owner]
    for rival in range(members):
        gap = windows[:, owner, winner] - windows[:, owner, rival]
        values, zero = sides(parts, gap, reach)
        wins, loses = (values > zero).any(1), (values < -zero).any(1)
        stays = wins | (winner == rival) | (~loses & (rival > winner))
        clipped = np.flatnonzero(wins & loses)
        if len(clipped):
            (inner, kept), _ = halves(parts[:, clipped], sizes[clipped], gap[:, clipped], reach)
            width = max(inner.shape[2], parts.shape[2])
            parts, sizes = widened(parts, width), sizes.copy()
            parts[:, clipped], sizes[clipped] = widened(inner, width), kept
        owner, winner = owner[stays], winner[stays]
        parts, sizes = parts[:, stays], sizes[stays]
    lost = np.setdiff1d(np.arange(n), owner)
    if len(lost):  # rounding left no winner: the polygon stays whole
        width = parts.shape[2]
        parts = np.concatenate([parts, widened(corners[:, lost], width)], 1)
        owner, sizes = np.concatenate([owner, lost]), np.concatenate([sizes, counts[lost]])
        order = np.argsort(owner, kind="stable")
        owner, parts, sizes = owner[order], parts[:, order], sizes[order]
    return owner, parts, sizes


def class_cells(
    flat: Floats, counts: Ints, maps: Floats, chunk: int
) -> Iterator[tuple[Ints, Floats, Ints, Ints]]:
    """The parts of convex polygons on which each class has the largest logit, block by block.

    flat: the corners of all polygons, one after the other. maps: `(n, C, 3)`. Yields the polygon of
    each part, the parts' corners, how many each has, and its class.
    """
    place = np.minimum(np.arange(counts.max()), counts[:, None] - 1)
    starts = np.cumsum(counts) - counts
    corners = flat[starts[:, None] + place].transpose(2, 0, 1)
    step = max(1, chunk // maps.shape[1])
    for low in range(0, len(counts), step):
        some = slice(low, low + step)
        windows = maps[some].transpose(2, 0, 1)
        owner, cells, sizes = largest_cells(corners[:, some], counts[some], windows, None)
        middle = np.concatenate([cells.mean(2), np.ones((1, len(owner)))])
        best = np.einsum("kn,knc->nc", middle, windows[:, owner]).argmax(1)
        yield owner + low, cells, sizes, best


def quadrants(lines: Floats) -> tuple[Store | None, bool]:
    """The whole plane cut in four by two of the lines `(3, U)`, and whether one had to be added.

    Of the lines that meet at a good angle the two whose crossing is nearest to the origin. None: no
    line has a direction.
    """
    size = np.hypot(lines[0], lines[1])
    usable = lines[:, size > 0] / size[size > 0]
    if usable.shape[1] == 0:
        return None, False
    nearest = np.argsort(np.abs(usable[2]), kind="stable")[:64]
    first, second = _best_pair(usable[:, nearest])
    seam = False
    if second is None:
        far = np.abs(first[0] * usable[1] - first[1] * usable[0]).argmax()
        first, second = _best_pair(np.stack([first, usable[:, far]], 1))
    if second is None:
        seam = True
        second = np.array([-first[1], first[0], 0.0])
    corner = np.linalg.solve(np.stack([first[:2], second[:2]]), -np.array([first[2], second[2]]))
    one, two = np.array([-first[1], first[0]]), np.array([-second[1], second[0]])
    if one[0] * two[1] - one[1] * two[0] < 0:
        two = -two
    ways = [one, two, -one, -two]  # counter-clockwise
    cones = [[[*corner, 1.0], [*ways[i], 0.0], [*ways[(i + 1) % 4], 0.0]] for i in range(4)]
    return Store(np.array(cones).transpose(2, 0, 1).copy(), np.full(4, 3)), seam


def _best_pair(lines: Floats) -> tuple[Floats, Floats | None]:
    pairs = np.array(list(combinations(range(lines.shape[1]), 2)), dtype=np.int64).reshape(-1, 2)
    a, b = lines[:, pairs[:, 0]], lines[:, pairs[:, 1]]
    sine = a[0] * b[1] - a[1] * b[0]
    good = np.abs(sine) >= max(0.5 * np.abs(sine).max(initial=0.0), TOLERANCE)
    if not good.any():
        return lines[:, 0], None
    a, b, sine = a[:, good], b[:, good], sine[good]
    x, y = (a[1] * b[2] - a[2] * b[1]) / sine, (a[2] * b[0] - a[0] * b[2]) / sine
    best = int(np.hypot(x, y).argmin())
    return a[:, best], b[:, best]
