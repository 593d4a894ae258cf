"""The plot of a monitor shows its history, its bound and its alarm."""

import math

import numpy as np
import pytest

from nescio.monitoring import monitor
from nescio.report.plots.monitor_plot import martingale


@pytest.fixture(scope="module")
def calm():
    rng = np.random.default_rng(0)
    return monitor(rng.normal(size=200), false_alarm=0.1).update(rng.normal(size=300))


def test_a_quiet_stream(calm):
    figure = martingale(calm)
    axis = figure.axes[0]
    history, bound = axis.lines
    seen, logs = calm.history
    np.testing.assert_allclose(history.get_xdata(), [0, *seen])
    np.testing.assert_allclose(history.get_ydata(), [0, *(logs / math.log(10))])
    assert bound.get_ydata()[0] == pytest.approx(1)
    assert "at most 10 %\nfalse" in axis.texts[0].get_text()
    assert "No alarm" in figure.get_suptitle()


def test_alarms_are_marked(calm):
    drifted = calm.update(np.full(30, 9.0))
    figure = martingale({"a": calm, "b $": drifted}, changed=300)
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [mark.get_xdata()[0] for mark in marks] == [drifted.alarm + 1]
    assert figure.get_suptitle() == "Alarm for drift in 1 of 2 streams"
    assert figure.legends[0].get_texts()[2].get_text() == "the data change"
    title = f"Alarm for drift at score {drifted.alarm}, counted from 0"  # as Monitor.alarm counts
    assert martingale(drifted).get_suptitle() == title


@pytest.mark.parametrize(("mean", "count"), [(0.6, 200), (2.0, 200), (8.0, 5000)])
@pytest.mark.parametrize("several", [False, True])
def test_the_plot_is_filled_however_strong_the_drift(calm, mean, count, several):
    drifted = calm.update(np.random.default_rng(1).normal(mean, 1, size=count))
    figure = martingale({"a": calm, "b": drifted} if several else drifted)
    axis = figure.axes[0]
    low, top = axis.get_ylim()
    lowest = min(one.history[1].min() for one in (calm, drifted)) / math.log(10)
    bound = drifted.threshold / math.log(10)
    assert low < min(0, lowest)
    assert top - min(0, lowest) >= 0.9 * (top - low)  # little below the data
    assert 1.6 * bound <= top <= 4 * bound
    assert axis.get_xlim() == (0, 300 + count)
    words = " ".join(text.get_text() for text in [*axis.texts, *_legend(figure)])
    highest = drifted.peaks.highest / math.log(10)
    assert (f"up to 10^{highest:,.0f}" in words) == (highest > top)


def test_labels_stand_beside_the_lines(calm):
    rng = np.random.default_rng(0)
    other = monitor(rng.normal(size=200), false_alarm=0.05).update(rng.normal(size=300))
    figure = martingale({"a": calm, "b": other})
    figure.draw_without_rendering()
    in_dist = figure.axes[0].get_window_extent()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 2
    assert all(box.x0 > in_dist.x1 for box in boxes)
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)
    assert not boxes[0].overlaps(boxes[1])


def _legend(figure):
    return [text for legend in figure.legends for text in legend.get_texts()]
