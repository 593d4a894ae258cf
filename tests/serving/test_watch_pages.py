"""The alarm page and its JSON, of a service with keys and without."""

import base64
import json
import re
import time
import urllib.error
import urllib.request
from urllib.parse import urlencode, urlsplit

import pytest

from nescio.serving import Client, Label
from nescio.serving.keys import new_key
from nescio.serving.watch_pages import HEADERS, watch_page


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        return answer.headers, answer.read().decode()


def test_the_page_shows_what_is_watched(served, moon_guards, moon_rows):
    running = served(moon_guards[0], sample=1.0)
    with Client(running.url) as client:
        client.predict(moon_rows[:60])
    log = running.service.log
    picked = list(log.decisions(decision="answer"))
    assert all(one.picked for one in picked)
    labels = [
        Label(decision=one.id, reviewer="a", kind="label", label=one.label, time=time.time())
        for one in picked
    ]
    log.add_labels(labels)
    running.service.version(None).watch.tick()
    headers, page = get(f"{running.url}/watch")
    assert headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    assert "<script" not in page
    assert len(re.findall(r"<svg", page)) == 2
    for words in ("Watching", "Drift", "Risk", "Accuracy", "No alarm so far", "allowed"):
        assert words in page
    _, text = get(f"{running.url}/v1/watch")
    (status,) = json.loads(text)["guards"]
    assert status["risk"]["answers"] == status["risk"]["labels"] == len(picked)
    assert status["drift"]["decisions"] == 60
    assert not status["alarms"]


def test_an_alarm_is_on_the_page(served, moon_guards, moon_rows):
    running = served(moon_guards[0])
    with Client(running.url) as client:
        for _ in range(8):
            client.predict(moon_rows[:60] + 50)
    running.service.version(None).watch.tick()
    _, page = get(f"{running.url}/watch")
    assert 'role="alert"' in page
    assert page.count("no longer like the calibration data") == 1
    assert "ALARM, see above." in page


def test_a_browser_signs_in_by_the_key_of_a_reviewer(served, moon_guards, tmp_path):
    keys = tmp_path / "keys.txt"
    reviewer, client = new_key(keys, "review", "anna"), new_key(keys, "predict", "ben")
    running = served(moon_guards[0], keys=keys)

    def basic(key):
        return "Basic " + base64.b64encode(f"anyone:{key}".encode()).decode()

    _, page = get(f"{running.url}/watch", Authorization=basic(reviewer))
    assert "Watching" in page
    get(f"{running.url}/v1/watch", Authorization=f"Bearer {reviewer}")
    for header, status in (
        ("", 401),
        (basic("wrong"), 401),
        ("Basic !", 401),
        (basic(client), 403),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{running.url}/watch", Authorization=header)
        assert refused.value.code == status
        assert ("WWW-Authenticate" in refused.value.headers) == (status == 401)
        refused.value.close()
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{running.url}/v1/watch")
    assert refused.value.code == 401
    refused.value.close()


def test_a_browser_opens_the_page_by_the_sign_in_of_a_reviewer(served, moon_guards, tmp_path):
    keys = tmp_path / "keys.txt"
    reviewer = new_key(keys, "review", "anna")
    url = served(moon_guards[0], keys=keys).url
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.addheaders = [("Accept", "text/html")]

    def visit(path, **form):
        body = urlencode(form).encode() if form else None
        with browser.open(f"{url}{path}", body, timeout=20) as page:
            return urlsplit(page.url).path, page.read().decode()

    path, text = visit("/watch")
    assert path == "/review/sign-in"
    assert 'name="to" value="watch"' in text
    path, text = visit("/review/sign-in", key=reviewer, to="watch")
    assert path == "/watch"
    assert '<a href="/review">Review</a>' in text
    assert json.loads(visit("/v1/watch")[1])["guards"]
    path, text = visit("/review")
    assert '<a href="/watch">Watching</a>' in text
    sent = re.search(r'name="token" value="([0-9a-f]{64})"', text)[1]
    visit("/review/sign-out", token=sent)
    assert visit("/watch")[0] == "/review/sign-in"
    elsewhere = urlencode({"key": reviewer, "to": "//example.com"}).encode()
    with browser.open(f"{url}/review/sign-in", elsewhere, timeout=20) as page:
        assert page.url == f"{url}/review"


def test_without_a_watch_the_page_says_so():
    assert "Nothing is watched" in watch_page([])
