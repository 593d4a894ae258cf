"""Peaks of a series in bounded memory, against the whole series."""

import numpy as np
import pytest

from nescio.monitoring.monitor import CELLS, Peaks


@pytest.mark.parametrize("count", [5, CELLS, 3 * CELLS + 7])
def test_peaks_are_the_highest_of_each_stretch(count: int) -> None:
    values = np.random.default_rng(0).normal(size=count)
    peaks = Peaks(np.empty(0), 1)
    for start in range(0, count, 700):
        peaks = peaks.add(start, values[start : start + 700])
    ends, heights = peaks.points(count)
    starts = np.arange(0, count, peaks.stride)
    assert len(heights) <= CELLS
    assert ends.tolist() == [min(start + peaks.stride, count) for start in starts]
    assert heights.tolist() == [values[start : start + peaks.stride].max() for start in starts]
    assert peaks.highest == values.max()
