"""The page in Chromium: no error, no request, sorting and the slider, narrow and wide, on paper."""

import dataclasses
import shutil
from importlib import resources
from importlib.util import find_spec

import numpy as np
import pytest

from nescio.guards import threshold_steps
from nescio.report import audit_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
]
MEASURED = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


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
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.as_uri())
        assert said == [path.as_uri()]
        return page

    yield open_
    assert said == [path.as_uri()] * len(contexts)
    for context in contexts:
        context.close()


def test_it_fits_narrow_and_wide_light_and_dark(opened, path):
    pages = {
        (width, scheme): opened_alone(opened, width, scheme)
        for width in (390, 1280)
        for scheme in ("light", "dark")
    }
    for (width, _), (wide, _) in pages.items():
        assert wide == width  # tables and figures scroll in their frames, the page does not
    assert pages[390, "light"][1] != pages[390, "dark"][1]
