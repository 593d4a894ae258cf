"""The plots show the numbers, and the SVG is the same every time."""

import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

from nescio.report.plots import audit_plots
from nescio.report.plots.look import label

ALL = (
    audit_plots.confidence_along_ray,
    audit_plots.separation_along_ray,
    audit_plots.confidence_histograms,
    audit_plots.reliability_diagrams,
)


def test_confidence_along_the_ray(result):
    axis = audit_plots.confidence_along_ray(result.typed).axes[0]
    first, second, reference = axis.lines
    assert list(first.get_xdata()) == [1, 10, 100]
    assert list(first.get_ydata()) == [0.981, 0.99, 0.997]
    assert list(second.get_ydata()) == [0.876, 0.5, 0.301]
    assert list(reference.get_ydata()) == [0.25, 0.25]
    assert axis.get_xscale() == "log"


def test_lines_close_together_get_a_closer_look(smallest):
    far, close = audit_plots.confidence_along_ray(smallest.typed).axes
    assert far.get_ylim()[0] == 0
    assert close.get_ylim()[0] > 0.9
    assert list(close.lines[0].get_ydata()) == list(far.lines[0].get_ydata())


def test_separation_along_the_ray(result):
    figure = audit_plots.separation_along_ray(result.typed)
    assert [a.get_title(loc="left") for a in figure.axes] == [
        "predictive entropy",
        "mutual information",
    ]
    first, second, chance = figure.axes[0].lines
    assert list(first.get_ydata()) == [0.5, 0.3, 0.104]
    assert list(second.get_ydata()) == [0.5, 0.8, 0.951]
    assert list(chance.get_ydata()) == [0.5, 0.5]


def test_histograms_are_shares_of_samples(result):
    axis = audit_plots.confidence_histograms(result.typed).axes[0]
    rows = [[bar.get_height() for bar in row] for row in axis.containers]
    known = [[0, 0, 0.5, 0.5], [0.2, 0.4, 0.4, 0], [0, 0.05, 0.15, 0.8]]
    np.testing.assert_allclose(rows, known, atol=1e-12)
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert names == ["scaled x 100", "noise", "test"]


def points(axis):
    (found,) = [part for part in axis.lines if part.get_label() == "accuracy of a bin"]
    return list(found.get_xdata()), list(found.get_ydata())


def test_reliability_skips_empty_bins(result):
    upper, _, lower, _ = audit_plots.reliability_diagrams(result.typed).axes
    assert points(upper) == ([0.4, 0.9], [0.35, 0.95])
    assert [bar.get_height() for bar in lower.patches] == [0, 20, 0, 80]


def test_bounds_are_exact(result):
    from scipy.stats import binomtest

    upper = audit_plots.reliability_diagrams(result.typed).axes[0]
    (lines,) = [part for part in upper.collections if "exact" in str(part.get_label())]
    drawn = [segment[:, 1] for segment in lines.get_segments()]
    for ends, wins, count in zip(drawn, (7, 76), (20, 80), strict=True):
        known = binomtest(wins, count).proportion_ci(0.95, method="exact")
        np.testing.assert_allclose(ends, known, atol=1e-9)


def test_reliability_shows_the_first_predictor_after_temperature(trusted):
    upper = audit_plots.reliability_diagrams(trusted.typed).axes[:3]
    titles = [axis.get_title(loc="left").split("\n")[0] for axis in upper]
    assert titles == ["plain", "plain, temperature", "<b>net</b>"]
    assert points(upper[1]) == ([0.4, 0.9], [0.4, 0.9])


def test_risk_against_coverage_with_the_guard(trusted):
    axis = audit_plots.risk_coverage(trusted.typed).axes[0]
    first, second, guard, guarantee = axis.lines
    assert list(first.get_xdata()) == [0.1, 0.5, 1.0]
    assert list(first.get_ydata()) == [0.0, 0.02, 0.1]
    assert list(second.get_ydata()) == [0.0, 0.0, 0.1]
    assert (list(guard.get_xdata()), list(guard.get_ydata())) == ([0.9], [0.01])
    assert list(guarantee.get_ydata()) == [0.02, 0.02]
    assert axis.get_xlim() == (0.4, 1.0)  # a tenth before the first error
    title = audit_plots.risk_coverage(trusted.typed).get_suptitle()
    assert title == "The more confident half of the answers holds 0.0 % to 2.0 % errors"


def test_the_shift_is_accuracy_calibration_and_the_guard(trusted):
    axes = audit_plots.under_shift(trusted.typed).axes
    titles = [axis.get_title(loc="left") for axis in axes]
    assert titles == [
        "accuracy", "calibration error (ECE)", "errors among the answers", "answered", "unsure",
        "called OOD",
    ]  # fmt: skip
    assert list(axes[0].lines[0].get_ydata()) == [0.9, 0.4]
    assert list(axes[3].lines[0].get_ydata()) == [0.9, 0.1]


@pytest.mark.parametrize("draw", ALL)
def test_svg_is_xml_and_the_same_every_time(draw, result, gaps):
    text = audit_plots.svg(draw(result.typed))
    assert text == audit_plots.svg(draw(result.typed))
    assert ET.fromstring(text).tag.endswith("svg")
    assert "<metadata" not in text
    ET.fromstring(audit_plots.svg(draw(gaps.typed)))


def test_the_users_settings_neither_matter_nor_change(result):
    usual = audit_plots.svg(audit_plots.confidence_along_ray(result.typed))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert audit_plots.svg(audit_plots.confidence_along_ray(result.typed)) == usual
        assert matplotlib.rcParams["font.size"] == 30


def test_lines_differ_in_more_than_color(result):
    result["predictors"] = {str(k): result["predictors"]["plain"] for k in range(8)}
    lines = audit_plots.confidence_along_ray(result.typed).axes[0].lines[:8]
    assert len({line.get_marker() for line in lines}) == 8
    assert len({line.get_color() for line in lines}) == 8
    assert len({str(line._dash_pattern) for line in lines}) == 8


def test_labels_are_short_visible_and_no_formulas():
    assert label("a" * 40) == "a" * 29 + "…"
    assert label("_net") == " _net"
    assert label("$x$") == r"\$x\$"
