"""The page in Chromium: no error, no request, sorting and the slider, narrow and wide, on paper."""

import dataclasses
from importlib import resources
from importlib.util import find_spec

import numpy as np
import pytest

from nescio.guards import threshold_steps
from nescio.report import audit_page

MEASURED = "document.documentElement.scrollWidth"


PAGES = {}


@pytest.fixture
def path(trusted, tmp_path_factory):
    """A page with an explorer; made once."""
    if "path" not in PAGES:
        rng = np.random.default_rng(0)
        score = rng.gamma(1, 1, 300)
        ood = {"letters": (rng.gamma(3, 1, 50), None), "<b>noise</b>": (rng.gamma(9, 1, 50), None)}
        steps = threshold_steps(score, rng.random(300) < 0.1 * score, ood=ood, own=1.5)
        found = dataclasses.replace(trusted.typed, sections={"thresholds": steps})
        PAGES["path"] = tmp_path_factory.mktemp("page") / "audit.html"
        PAGES["path"].write_text(audit_page(found))
    return PAGES["path"]


@pytest.fixture
def opened(browser, path):
    """Opens the page; fails on a message, an error or a request."""
    contexts, said = [], []

    def open_(*, width=1280, scheme="light", **options):
        size = {"width": width, "height": 900}
        options |= {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_
    assert said == [path.as_uri()] * len(contexts)
    for context in contexts:
        context.close()


def test_it_fits_narrow_and_wide_light_and_dark(opened):
    colors = set()
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            page = opened(width=width, scheme=scheme)
            assert page.evaluate(MEASURED) == width  # tables scroll in their frames
            colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


def test_tables_are_sorted_by_a_click_and_by_the_keyboard(opened):
    page = opened()
    table = page.locator("#confidence table").first
    column = "rows => rows.map(row => row.cells[1].textContent)"
    before = table.locator("tbody tr").evaluate_all(column)
    head = table.locator("thead th").nth(1)
    head.locator("button").click()
    rising = table.locator("tbody tr").evaluate_all(column)
    assert rising == sorted(before, key=float)
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").press("Enter")
    assert table.locator("tbody tr").evaluate_all(column) == rising[::-1]
    head.locator("button").press("Enter")
    assert table.locator("tbody tr").evaluate_all(column) == before
    assert head.get_attribute("aria-sort") is None


def test_the_slider_moves_the_threshold(opened):
    page = opened()
    slide = page.locator(".explorer input[type=range]")
    assert slide.is_visible()
    shown = page.locator(".explorer dl.at:visible")
    first = shown.inner_text()
    assert "the guard's own" in first
    slide.focus()
    slide.press("ArrowRight")
    assert shown.count() == 1
    assert shown.inner_text() != first
    slide.press("End")
    assert "no answer" in shown.inner_text()
    assert "step 41 of 41" in slide.get_attribute("aria-valuetext")
    lines = "all => all.filter(one => getComputedStyle(one).display !== 'none').length"
    assert page.locator(".chart .now").evaluate_all(lines) == 2  # one in each panel


def test_it_is_complete_without_script(opened):
    page = opened(java_script_enabled=False)
    radios = page.locator(".explorer input[type=radio]")
    assert radios.count() == 41
    assert page.locator(".explorer input[type=range]").count() == 0
    radios.first.check()
    shown = page.locator(".explorer dl.at:visible")
    assert shown.count() == 1
    first = shown.inner_text()
    radios.first.press("ArrowRight")
    assert shown.inner_text() != first
    assert page.locator("thead button").count() == 0
    page.locator("#ood table, #confidence table").first.scroll_into_view_if_needed()


def test_contents_lead_to_sections(opened):
    page = opened()
    page.locator(".contents a", has_text="Calibration").click()
    assert page.evaluate("location.hash") == "#calibration"
    top = page.locator("#calibration").bounding_box()["y"]
    assert -5 <= top < 900


def test_it_is_printed(opened):
    page = opened(scheme="dark")
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".explorer input:visible").count()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_axe_finds_nothing_serious(opened, width, scheme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(width=width, scheme=scheme, bypass_csp=True)
    page.evaluate(script)
    found = page.evaluate("axe.run()")
    serious = [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert serious == []
    assert len(found["passes"]) > 30
