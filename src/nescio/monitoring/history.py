"""The highest values of a long series, in bounded memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELLS = 1024  # at most; when they are full, two become one


@dataclass(frozen=True, eq=False)
class Peaks:
    """The highest value in each stretch of `stride` values; the last may be unfinished."""

    heights: NDArray[np.float64]
    stride: int

    @classmethod
    def none(cls) -> "Peaks":
        """Of a series that has not begun."""
        return cls(np.empty(0), 1)

    @property
    def highest(self) -> float:
        """Of all values; 0 before the first, where a martingale's logarithm starts."""
        return float(self.heights.max(initial=0.0))

    def add(self, start: int, values: NDArray[np.float64]) -> "Peaks":
        """With the values from number `start` on; the same however a series is cut."""
        heights, stride, last = self.heights, self.stride, start + len(values) - 1
        while last // stride >= CELLS:
            even = np.append(heights, -np.inf) if len(heights) % 2 else heights
            heights, stride = even.reshape(-1, 2).max(1), 2 * stride
        grown = np.full(last // stride + 1, -np.inf)
        grown[: len(heights)] = heights
        np.maximum.at(grown, np.arange(start, last + 1) // stride, values)
        return Peaks(grown, stride)

    def points(self, seen: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The ends of the stretches, of `seen` values, and their heights."""
        ends = np.arange(1, len(self.heights) + 1, dtype=np.int64) * self.stride
        return np.minimum(ends, seen), self.heights
