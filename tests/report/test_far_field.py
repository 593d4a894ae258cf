"""The far field in the text, on the page and as a plot."""

import re

import pytest

from nescio.report import audit_page, audit_text
from nescio.report.audit_words import verdict
from nescio.report.plots import audit_plots

QUANTILES = [float(k) for k in range(21)]


@pytest.fixture
def far(result):
    """`plain` is always certain; the other network has a layer in the way."""
    part = {
        "count": 100,
        "start": 1.0,
        "members": {"one": 1.0, "tie": 0.0, "constant": 0.0},
        "certain": 0.875,
        "undecided": 0.0,
        "mean_limit_confidence": 0.9321,
        "radius": [1000 * q for q in QUANTILES],
        "factor": {
            "0.95": {"rays": 50, "reached": 1.0, "quantiles": QUANTILES},
            "0.999": {"rays": 50, "reached": 0.45, "quantiles": QUANTILES[:10] + [None] * 11},
        },
    }
    found = {"random directions": part, "test points": part}
    result["predictors"]["plain"]["far_field"] = {"rays": found}
    result["predictors"]["<b>net</b>"]["far_field"] = {"skipped": "layer '1' (GELU) is in the way"}
    return result


def test_the_text_has_a_table_for_each_kind_of_rays(far) -> None:
    text = audit_text(far.typed)
    rows = re.findall(r"^plain .*$", text.partition("Infinitely far away")[2], re.MULTILINE)
    assert [row.split() for row in rows] == [
        ["plain", "88", "%", "93.2", "%", "10,000", "10", "never"]
    ] * 2
    assert "<b>net</b>: no far field. layer '1' (GELU) is in the way" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_page_has_the_same(far) -> None:
    page = audit_page(far.typed)
    assert page.count('<section id="far-field"') == 1
    assert re.search(r"<td[^>]*>10,000</td><td[^>]*>10</td><td[^>]*>never</td>", page)
    assert "<dt>&lt;b&gt;net&lt;/b&gt;</dt><dd>no far field. layer &#39;1&#39; (GELU)" in page


def test_the_verdict_says_what_is_proved(far) -> None:
    first, second = verdict(far.typed)
    assert "In the limit it is certain of one class in 87.5 % of random directions" in first
    assert "its mean confidence is 93.2 %" in first
    assert "In the limit" not in second


def test_the_plot_shows_the_distributions(far) -> None:
    figure = audit_plots.far_field(far.typed)
    assert figure.get_suptitle().startswith("In 88 % of directions")
    assert len(figure.axes) == 4
    sure, dotted = figure.axes[0].get_lines()
    assert list(sure.get_ydata()) == [k / 20 for k in range(10)]  # the rest is never sure
    assert list(dotted.get_xdata())[1:] == QUANTILES[1:]
    assert list(figure.axes[2].get_lines()[0].get_xdata())[1:] == [1000 * q for q in QUANTILES[1:]]


def test_nothing_is_said_where_no_ray_was_followed(result) -> None:
    assert "Infinitely" not in audit_text(result.typed)
    assert "Infinitely" not in audit_page(result.typed)
