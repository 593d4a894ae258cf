"""The review pages in Chromium: keys, no script, no request elsewhere, narrow, dark, on paper."""

import io
import threading
import time
from importlib import resources
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import uvicorn
from fastapi import FastAPI

from nescio.serving.decision_log import Entry, KeptInput, open_log
from nescio.serving.review_pages import router
from nescio.serving.review_queue import Reviewer

ROW = b'{"age": 61, "smoker": "yes", "hospital": "north"}'


def digit(seed):
    file = io.BytesIO()
    x, y = np.meshgrid(np.arange(8), np.arange(8))
    ring = np.exp(-((np.hypot(x - 3.5, y - 3.5) - 2 - seed % 2) ** 2)).astype(np.float32)
    np.save(file, ring[None])
    return KeptInput("npy", file.getvalue())


def entry(at):
    own = {"replica": "0", "guard": "digits", "version": "v", "digest": "", "label": "3"}
    own |= {"decision": ("unsure", "answer")[at % 2], "probability": 0.5, "p_value": 0.5}
    own |= {"score": 0.0, "failure_score": 0.0, "rule": "r", "in_range": True, "set": "3 | 8"}
    kept = digit(at) if at % 3 else KeptInput("row", ROW)
    return Entry(id=f"q{at}-0", time=1.7e9 + at, more=None, picked=True, propensity=1.0,
        kept=kept, **own)  # fmt: skip


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log.db") as made:
        made.register("digits", "v", {"classes": [str(n) for n in range(10)]})
        made.write([entry(at) for at in range(1, 13)])
        yield made


@pytest.fixture
def address(log):
    """Where the pages are served; the key is `secret`."""
    who = {"Bearer secret": Reviewer("anna", "admin")}
    app = FastAPI()
    app.include_router(
        router(SimpleNamespace(log=log, keys=SimpleNamespace(who=who.get), reviews=1))
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def opened(browser, address):
    """Signs in; fails on a message, an error, or a request elsewhere."""
    contexts, said = [], []

    def open_(*, width=1280, scheme="light", **options):
        size = {"width": width, "height": 800}
        options |= {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda one: None if one.url.startswith(address) else said.append(one.url)
        )
        page.goto(f"{address}/review")
        page.locator("#key").fill("secret")
        page.locator("#key").press("Enter")
        page.wait_for_url(f"{address}/review")
        return page

    yield open_
    assert said == []
    for context in contexts:
        context.close()


def labels(log):
    return [(one.decision, one.kind, one.label) for _, one in log.labels()]


def test_keys_label_skip_and_show_the_guess(opened, log):
    page = opened()
    page.keyboard.press("s")
    page.wait_for_url("**/item/q1-0")
    page.keyboard.press("g")
    page.wait_for_url("**/item/q1-0?guess=1")
    assert "3 | 8" in page.locator("dl.guess").inner_text()
    page.keyboard.press("3")
    page.wait_for_url("**/item/q2-0?last=q1-0")
    page.keyboard.press("n")
    page.wait_for_url("**/item/q3-0?last=q2-0")
    page.keyboard.press("u")
    page.wait_for_url("**/item/q2-0")
    page.keyboard.press("9")
    page.wait_for_url("**/item/q3-0?last=q2-0")
    page.keyboard.press("s")
    page.wait_for_url("**/item/q4-0")
    assert labels(log) == [
        ("q1-0", "label", "3"),
        ("q2-0", "none", None),
        ("q2-0", "label", "9"),
        ("q3-0", "skip", None),
    ]


def test_all_works_without_script(opened, log):
    page = opened(java_script_enabled=False)
    page.get_by_role("link", name="Start with the oldest").click()
    page.get_by_role("button", name="7", exact=False).last.click()
    page.get_by_role("button", name="not one of these").press("Enter")
    page.get_by_role("button", name="skip").click()
    page.get_by_role("link", name="Show the model").click()
    assert page.locator("dl.guess").is_visible()
    assert [one[0] for one in labels(log)] == ["q1-0", "q2-0", "q3-0"]
    page.get_by_role("button", name="Sign out").click()
    assert page.locator("#key").is_visible()


def test_it_fits_narrow_and_wide_light_dark_and_on_paper(opened):
    colors = set()
    for width, scheme in ((390, "light"), (1280, "dark")):
        page = opened(width=width, scheme=scheme)
        for path in ("", "/item/q1-0", "/item/q3-0", "/disagreements"):
            page.goto(page.url.split("/review")[0] + f"/review{path}")
            assert page.evaluate("document.documentElement.scrollWidth") == width
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2
    page.goto(page.url.split("/review")[0] + "/review/item/q3-0")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("button:visible").count()


@pytest.mark.parametrize(
    ("width", "scheme", "paths"),
    [(390, "light", ("", "/item/q1-0")), (1280, "dark", ("/item/q3-0?guess=1", "/disagreements"))],
)
def test_axe_finds_nothing_serious(opened, width, scheme, paths):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(width=width, scheme=scheme, bypass_csp=True)
    for path in paths:
        page.goto(page.url.split("/review")[0] + f"/review{path}")
        page.evaluate(script)
        found = page.evaluate("axe.run()")
        bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"]) for one in bad] == []
        assert len(found["passes"]) > 10
