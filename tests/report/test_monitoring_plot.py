"""The plot of a monitor shows its history, its bound and its alarm."""

import math

import numpy as np
import pytest

from nescio.monitoring import monitor
from nescio.report.monitoring import martingale


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
    assert "at most 10 % false" in axis.texts[0].get_text()
    assert "No alarm" in figure.get_suptitle()


def test_alarms_are_marked(calm):
    drifted = calm.update(np.full(30, 9.0))
    figure = martingale({"a": calm, "b $": drifted}, changed=300)
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [mark.get_xdata()[0] for mark in marks] == [drifted.alarm + 1]
    assert figure.get_suptitle() == "Alarm for drift in 1 of 2 streams"
    assert figure.legends[0].get_texts()[2].get_text() == "the data change"
    assert f"score {drifted.alarm + 1}" in martingale(drifted).get_suptitle()
