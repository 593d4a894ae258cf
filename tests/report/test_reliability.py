"""The reliability diagram draws the numbers it is given."""

from itertools import pairwise

import numpy as np
import pytest

from nescio.core import NescioError
from nescio.metrics import reliability
from nescio.report.plots.look import svg
from nescio.report.plots.reliability_plot import reliability_diagram


def bins(power, equal="width"):
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.3, 1, 2000)
    return reliability(sure, rng.uniform(size=2000) < sure**power, equal=equal)


def points(axis):
    (found,) = [part for part in axis.lines if part.get_label() == "accuracy of a bin"]
    return found.get_xdata(), found.get_ydata()


@pytest.mark.parametrize("equal", ["width", "mass"])
def test_points_bounds_bands_and_counts_are_those_of_the_bins(equal):
    found = {"before": bins(2, equal), "after": bins(1, equal)}
    figure = reliability_diagram(found)
    upper = figure.axes[:2]
    for axis, made in zip(upper, found.values(), strict=True):
        full = made.count > 0
        np.testing.assert_array_equal(points(axis)[0], made.confidence[full])
        np.testing.assert_array_equal(points(axis)[1], made.accuracy[full])
        bands = [part for part in axis.collections if part.get_facecolor().size]
        low, high = made.expected()
        drawn = [band.get_paths()[0].vertices[:, 1] for band in bands]
        np.testing.assert_allclose([ys.min() for ys in drawn], low[full])
        np.testing.assert_allclose([ys.max() for ys in drawn], high[full])
        (lines,) = [part for part in axis.collections if "exact" in str(part.get_label())]
        ends = np.array([segment[:, 1] for segment in lines.get_segments()])
        np.testing.assert_allclose(ends.T, [end[full] for end in made.bounds()])
        assert f"{100 * made.ece:.1f} %" in axis.get_title(loc="left")
    heights = [bar.get_height() for bar in figure.axes[2].patches]
    assert heights == found["before"].count.tolist()


@pytest.mark.parametrize("names", [1, 3, 4, 5])
def test_any_number_of_panels(names):
    figure = reliability_diagram({f"temperature {k}": bins(k + 1) for k in range(names)}, level=0.9)
    assert len(figure.axes) == 2 * names
    assert "expected if calibrated, 90 %" in svg(figure)


def test_titles_side_by_side_do_not_collide():
    names = ["network", "network, temperature", "MC dropout, fifty passes each"]
    figure = reliability_diagram({name: bins(k + 1) for k, name in enumerate(names)})
    figure.canvas.draw()
    boxes = [axis._left_title.get_window_extent() for axis in figure.axes[:3]]
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))


def test_the_page_gets_the_same_bytes_each_time():
    assert svg(reliability_diagram({"x": bins(1)})) == svg(reliability_diagram({"x": bins(1)}))


def test_nothing_is_an_error():
    with pytest.raises(NescioError, match="nothing to draw"):
        reliability_diagram({})
