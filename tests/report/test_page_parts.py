"""Parts of the page: small SVG, the scale of a finding, the threshold explorer."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from nescio.guards import threshold_steps
from nescio.report.explorer import explorer_of
from nescio.report.finding_scale import WIDE, finding_scale
from nescio.report.page_figures import compact
from nescio.report.plots.look import COLORS, panels, svg, with_look
from nescio.report.verdict_words import advice_of


@with_look
def drawn() -> Figure:
    figure, (axis,) = panels(1, height=2, title="Title")
    for k, color in enumerate(COLORS):
        axis.plot([0, 1], [0, k], color=color, marker="o", label=f"<{k}>")
    figure.legend()
    return figure


def test_a_small_svg_shows_the_same():
    whole = svg(drawn())
    small = compact(whole)
    assert len(small) < 0.7 * len(whole)
    assert re.findall(r">([^<>]+)</text>", small) == re.findall(r">([^<>]+)</text>", whole)
    assert small.count("<use") == whole.count("<use")
    assert small.count("<path") == whole.count("<path")
    assert not re.search("#[0-9a-f]{6}", small)  # every color follows the page
    ids = set(re.findall(r'id="([^"]+)"', small))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', small)) <= {
        pair for name in ids for pair in ((name, ""), ("", name))
    }


def finding(**changes):
    about = {"value": 0.04, "low": 0.02, "high": 0.07, "attention": 0.05, "fail": 0.1}
    return SimpleNamespace(**{**about, "better": "lower", "unit": "share", **changes})


def test_the_scale_puts_numbers_in_their_order():
    text = finding_scale(finding())
    dot = float(re.search(r'cx="([\d.]+)"', text)[1])
    low, high = map(float, re.search(r'range" d="M([\d.]+) 10H([\d.]+)"', text).groups())
    attention, fail = map(float, re.findall(r'limit" d="M([\d.]+)', text))
    assert 4 <= low < dot < attention < high < fail < WIDE
    assert re.findall(r'rect class="(\w+)"', text) == ["good", "warn", "bad"]


def test_the_scale_of_a_number_that_should_be_large_has_its_good_side_right():
    text = finding_scale(finding(value=0.9, low=0.85, high=0.93, attention=0.8, fail=None,
                                 better="higher"))  # fmt: skip
    found = dict(re.findall(r'rect class="(\w+)" x="([\d.]+)"', text))
    assert set(found) == {"good", "warn"}
    assert float(found["warn"]) < float(found["good"])


@pytest.mark.parametrize("changes", [{"value": None}, {"attention": None, "fail": None},
                                     {"unit": "count"}, {"value": float("nan")}])  # fmt: skip
def test_there_is_no_scale_without_a_number_and_a_limit(changes):
    assert finding_scale(finding(**changes)) == ""


@pytest.fixture
def thresholds():
    rng = np.random.default_rng(0)
    score = rng.gamma(1, 1, 300)
    wrong = rng.random(300) < 0.1 * score
    ood = {f"set {k}": (rng.gamma(3, 1, 50), None) for k in range(10)}
    return threshold_steps(score, wrong, ood=ood, own=1.5)


def test_the_explorer_says_what_the_steps_hold(thresholds):
    found = explorer_of(thresholds)
    assert len(found.steps) == 41
    assert found.checked == found.own == thresholds.own
    for shown, step in zip(found.steps, thresholds.steps, strict=True):
        share = float(re.search(r"[\d.]+", shown.answered)[0])
        assert share == pytest.approx(100 * step.coverage.value, abs=0.05)
        assert len(shown.abstained) == 8
        assert [one[2] for one in shown.abstained] == list(step.abstained.values())[:8]
    assert found.steps[-1].risk == "no answer"
    assert found.hidden_sets == 2
    assert len(found.table.rows) == 41
    assert len(found.table.head) == 4 + 10


def test_the_chart_has_a_place_for_every_step(thresholds):
    chart = explorer_of(thresholds).chart
    places = [float(x) for x in re.findall(r'class="now at-\d+" d="M([\d.]+)', chart)]
    assert len(places) == 2 * 41  # in both panels
    assert places[:41] == places[41:] == sorted(places[:41])
    line = re.search(r'class="l1" d="M([^"]+)"', chart)[1].split("L")
    heights = [float(point.split()[1]) for point in line]
    assert heights == sorted(heights)  # coverage falls, so the line goes down


def test_advice_is_about_samples_where_the_data_do_not_tell():
    known = finding(status="attention", advice="Divide the logits.", unclear=False)
    assert advice_of(known) == "Divide the logits."
    unclear = finding(status="attention", advice="Divide the logits.", unclear=True)
    assert "give more samples" in advice_of(unclear)
    absent = finding(status="attention", advice="Name a set.", unclear=True, value=None)
    assert advice_of(absent) == "Name a set."
    assert advice_of(finding(status="pass", advice="Divide the logits.", unclear=False)) == ""
