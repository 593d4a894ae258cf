"""What rays meet in a plane of walls and disks; points and directions are complex numbers."""

from typing import Any

import numpy as np

Array = Any  # of numpy: complex, real, integer or bool


def to_walls(start: Array, way: Array, walls: Array) -> Array:
    """How far along `way` the first wall lies, in units of its length; infinite where none does.

    start, way: complex `(...)`. walls: their ends, complex `(W, 2)`. Parallel walls are not met.
    """
    along = walls[:, 1] - walls[:, 0]
    between = walls[:, 0] - start[..., None]  # (..., W)
    slant = cross(way[..., None], along)
    with np.errstate(divide="ignore", invalid="ignore"):
        far, share = cross(between, along) / slant, cross(between, way[..., None]) / slant
    met = (slant != 0) & (far >= 0) & (share >= 0) & (share <= 1)
    return np.where(met, far, np.inf).min(-1)


def to_disks(start: Array, way: Array, centers: Array, radius: float) -> Array:
    """How far along the unit vector `way` each disk begins, `(..., K)`; infinite where not met.

    start, way: complex `(...)`. centers: complex `(..., K)`. Inside a disk the distance is 0.
    """
    between = way.conj()[..., None] * (centers - start[..., None])  # its parts: along, aside
    half = np.sqrt(np.maximum(radius**2 - between.imag**2, 0))
    met = (np.abs(between.imag) < radius) & (between.real + half >= 0)
    return np.where(met, np.maximum(between.real - half, 0), np.inf)


def from_walls(points: Array, walls: Array) -> Array:
    """The distance of points `(...)` from the nearest wall."""
    along = walls[:, 1] - walls[:, 0]
    between = points[..., None] - walls[:, 0]  # (..., W)
    share = np.clip((between * along.conj()).real / np.abs(along) ** 2, 0, 1)
    return np.abs(between - share * along).min(-1)


def cross(first: Array, second: Array) -> Array:
    """The third component of the cross product of two vectors."""
    return (first.conj() * second).imag
