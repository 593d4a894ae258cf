"""The pages of the review queue: sign-in, labels without script, the hidden guess, safety."""

import io
import json
import re
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("fastapi")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from nescio.serving.decision_log import Entry, KeptInput, open_log
from nescio.serving.review_pages import router
from nescio.serving.review_queue import Reviewer, keyed
from nescio.serving.review_sessions import ReviewSessions

PEOPLE = {
    "anna-key": Reviewer("anna", "review"),
    "ben-key": Reviewer("ben", "review"),
    "zoe-key": Reviewer("zoe", "admin"),
    "app-key": Reviewer("app", "predict"),
}
EVIL = '<script>alert("x")</script>\u202e'


class Keys:
    """Keys as the service has them."""

    def who(self, authorization: str) -> Reviewer | None:
        """Who has this key."""
        return PEOPLE.get(authorization.removeprefix("Bearer "))


@dataclass
class Service:
    """A service with nothing but a log."""

    log: Any
    keys: Any
    reviews: int = 1


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return KeptInput("npy", file.getvalue())


def picture():
    file = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(file, "PNG")
    return KeptInput("image", file.getvalue())


def entry(id, **changed):
    own = {"time": 0.0, "replica": "0", "guard": "g", "version": "v", "digest": "", "label": "cat"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.25, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": "cat | dog", "more": None}
    return Entry(**{"id": id, **own, "picked": True, "propensity": 1.0, **changed})


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log.db") as made:
        made.register("g", "v", {"classes": ["cat", "dog"], "task": "classification"})
        made.register("evil", "v", {"classes": [EVIL, "b"], "task": "classification"})
        made.register("many", "v", {"classes": [f"c{n}" for n in range(40)]})
        made.write(
            [
                entry("r/1", kept=npy(np.zeros((1, 8, 8), np.float32))),
                entry("r-2", decision="answer", propensity=0.1, kept=picture()),
                entry("r-3", kept=KeptInput("row", b'{"age": 42, "name": "<b>Bo</b>"}')),
                entry("r-4", kept=KeptInput("row", b'{"text": "hello <i>you</i>"}')),
                entry("r-5", guard="evil", kept=KeptInput("row", b"{}")),
                entry("r-6", guard="many", kept=None),
                entry("r-7", kept=KeptInput("image", b"broken")),
            ]
        )
        yield made


def client(log, keys=True, **options):
    app = FastAPI()
    app.include_router(router(Service(log, Keys() if keys else None, **options)))
    return TestClient(app, follow_redirects=True)


def signed_in(log, key="anna-key", **options):
    made = client(log, **options)
    page = made.post("/review/sign-in", data={"key": key})
    assert page.status_code == 200
    return made


def token(page):
    return re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]


def test_nobody_gets_in_without_a_key_of_the_right_role(log):
    made = client(log)
    for path in ("/review", "/review/next", "/review/item/r-2", "/review/picture/r-2",
                 "/review/disagreements"):  # fmt: skip
        page = made.get(path)
        assert page.url.path == "/review/sign-in"
        assert "r-2" not in page.text
    assert made.post("/review/item/r-2", data={"label": "cat"}).status_code == 401
    assert made.post("/review/sign-in", data={"key": "guess"}).status_code == 401
    assert made.post("/review/sign-in", data={"key": ""}).status_code == 401
    refused = made.post("/review/sign-in", data={"key": "app-key"})
    assert refused.status_code == 403
    assert "predict" in refused.text
    assert not made.cookies
    found = [(one.what, one.who) for _, one in log.actions()]  # wrong keys do not fill the log
    assert found == [("sign-in refused", "unknown"), ("sign-in refused", "app")]


def test_a_cookie_is_signed_strict_and_ends(log):
    made = client(log)
    answer = made.post("/review/sign-in", data={"key": "anna-key"}, follow_redirects=False)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/;"))
    value = made.cookies["nescio_review"]
    page = made.get("/review")
    assert "anna" in page.text
    body, _, signature = value.rpartition(".")
    for forged in (f"{body}.{signature[:-1]}0", f"{body[:-2]}AA.{signature}", "", "x", "é.é"):
        other = client(log)
        answer = other.get("/review", headers={"Cookie": f"nescio_review={forged}".encode()})
        assert answer.url.path == "/review/sign-in"
    other = client(log)  # a second process with this log
    other.cookies.set("nescio_review", value)
    assert "anna" in other.get("/review").text
    out = made.post("/review/sign-out", data={"token": token(page)})
    assert out.url.path == "/review/sign-in"
    made.cookies.set("nescio_review", value)  # somebody kept it
    assert made.get("/review").url.path == "/review/sign-in"
    assert other.get("/review").url.path == "/review/sign-in"
    assert [one.what for _, one in log.actions()] == ["sign-in", "sign-out"]


def test_a_sign_in_ends_with_the_key_and_counts_for_one_log_only(log, tmp_path):
    known = {"aa": Reviewer("anna", "review"), "bb": Reviewer("ben", "review")}
    keys = SimpleNamespace(known=known)
    sessions = ReviewSessions(log, lambda: keys)
    cookie = sessions.start(known["aa"])
    assert sessions.read(cookie).who == known["aa"]
    known["cc"] = Reviewer("zoe", "admin")  # a new key of somebody else changes nothing
    assert ReviewSessions(log, lambda: keys).read(cookie) == sessions.read(cookie)
    with open_log(tmp_path / "other.db") as other:
        assert ReviewSessions(other, lambda: keys).read(cookie) is None
    known["dd"] = known.pop("aa")  # the same name with a new key
    assert sessions.read(cookie) is None
    known["aa"] = known.pop("dd")
    assert sessions.read(cookie).who == known["aa"]
    del known["aa"]
    assert sessions.read(cookie) is None
    assert ReviewSessions(log, lambda: None).read(cookie) is None
    local = ReviewSessions(log, lambda: None).start(Reviewer("local", "admin"))
    assert ReviewSessions(log, lambda: None).read(local).who.role == "admin"
    assert ReviewSessions(log, Keys).read(local) is None  # now there are keys
    late = ReviewSessions(log, lambda: keys, now=lambda: time.time() + 13 * 3600)
    assert late.read(sessions.start(known["bb"])) is None


def test_labels_are_given_by_plain_forms_oldest_first(log):
    made = signed_in(log)
    page = made.get("/review/next")
    assert page.url.path == "/review/item/r/1"
    assert "Which class is it?" in page.text
    page = made.post("/review/item/r/1", data={"token": token(page), "label": "dog"})
    assert page.url.path == "/review/item/r-2"  # POST, redirect, GET
    assert "Saved: dog" in page.text
    page = made.post("/review/item/r-2", data={"token": token(page), "kind": "none"})
    page = made.post("/review/item/r-3", data={"token": token(page), "kind": "skip"})
    assert page.url.path == "/review/item/r-4"
    found = [(one.decision, one.kind, one.label) for _, one in log.labels()]
    assert found == [("r/1", "label", "dog"), ("r-2", "none", None), ("r-3", "skip", None)]
    again = made.get("/review/item/r/1")
    assert "You said: <b>dog</b>" in again.text
    made.post("/review/item/r/1", data={"token": token(again), "label": "cat"})
    assert [one.label for _, one in log.labels(decision="r/1")] == ["dog", "cat"]
    page = made.get("/review")
    assert "<b>2</b> labeled today by you" in page.text
    assert "<b>4</b> waiting" in page.text
    assert "/review/item/r-3" not in page.text
    assert "/review/item/r-3" in made.get("/review?skipped=1").text


def test_the_guess_is_hidden_until_it_is_asked_for_which_is_recorded(log):
    made = signed_in(log)
    for id in ("r/1", "r-2"):  # an abstention and an answer look alike
        page = made.get(f"/review/item/{id}")
        for word in ("unsure", "answer", "0.500", "cat | dog", "0.25", "propensity"):
            assert word not in page.text, word
    one, two = (made.get(f"/review/item/{id}").text.replace(id, "") for id in ("r/1", "r-2"))
    assert one == two
    assert "guess" not in [one.what for _, one in log.actions()]
    page = made.get("/review/item/r-2?guess=1")
    assert "<dd>answer</dd>" in page.text
    assert "cat | dog" in page.text
    made.post("/review/item/r-2", data={"token": token(page), "label": "cat", "guess_seen": "1"})
    found = [(one.what, one.about) for _, one in log.actions()]
    assert found == [("sign-in", "review"), ("guess", "r-2"), ("label", "r-2")]
    assert '"guess_seen": true' in list(log.actions())[-1][1].details


def test_inputs_are_shown_escaped(log):
    made = signed_in(log)
    row = made.get("/review/item/r-3").text
    assert '<th scope="row">age</th><td>42</td>' in row
    assert "&lt;b&gt;Bo&lt;/b&gt;" in row
    assert "<b>Bo" not in row
    assert "hello &lt;i&gt;you&lt;/i&gt;" in made.get("/review/item/r-4").text
    evil = made.get("/review/item/r-5").text
    assert "<script>alert" not in evil
    assert "\u202e" not in evil
    assert "no longer kept" in made.get("/review/item/r-6").text
    assert "cannot be shown" in made.get("/review/item/r-7").text
    listed = made.get("/review").text
    assert "age 42; name &lt;b&gt;Bo&lt;/b&gt;" in listed
    for id in ("r/1", "r-2"):
        answer = made.get(f"/review/picture/{id}")
        assert answer.headers["content-type"] == "image/png"
        with Image.open(io.BytesIO(answer.content)) as shown:
            assert shown.size == (112, 112)
    assert made.get("/review/picture/r-3").status_code == 404


def test_forms_of_others_are_refused(log):
    made = signed_in(log)
    good = {"token": token(made.get("/review/item/r/1")), "label": "cat"}
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert made.post("/review/item/r/1", data={"label": "cat"}).status_code == 403
    assert made.post("/review/item/r/1", data={**good, "token": "0" * 64}).status_code == 403
    assert made.post("/review/item/r/1", data=good, headers=cross).status_code == 403
    assert made.post("/review/item/r/1", json=good).status_code == 415
    assert made.post("/review/item/r/1", data={"x": "y" * 70_000}).status_code == 413
    other = signed_in(log, "ben-key")
    assert other.post("/review/item/r/1", data=good).status_code == 403  # anna's token
    assert made.post("/review/item/r/1", data={**good, "label": "bird"}).status_code == 400
    assert made.post("/review/item/nobody", data=good).status_code == 404
    assert made.post("/review/sign-in", data={"key": "x"}, headers=cross).status_code == 403
    assert list(log.labels()) == []


def test_every_answer_has_strict_headers_and_names_no_other_host(log):
    made = signed_in(log)
    for path in ("/review", "/review/item/r-2", "/review/sign-in", "/review/style.css",
                 "/review/keys.js", "/review/item/nobody", "/review/picture/r-2"):  # fmt: skip
        answer = made.get(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        if "html" in answer.headers["content-type"]:
            assert answer.headers["cache-control"] == "no-store"
            assert not re.search(r"https?://", answer.text)
            assert not re.search(r"<script>|\son\w+=|\sstyle=", answer.text)
    assert made.get("/openapi.json").json()["paths"] == {}


def test_two_reviewers_disagree_and_a_third_person_or_an_admin_settles(log):
    anna, ben, zoe = (signed_in(log, f"{name}-key", reviews=2) for name in ("anna", "ben", "zoe"))
    for made, said in ((anna, "cat"), (ben, "dog")):
        page = made.get("/review/item/r-3")
        assert "anna" not in page.text or made is anna  # not what others said
        made.post("/review/item/r-3", data={"token": token(page), "label": said})
    page = anna.get("/review/disagreements")
    assert "anna: <b>cat</b>" in page.text
    assert "ben: <b>dog</b>" in page.text
    assert "A third person or an admin settles this." in page.text
    path = "/review/disagreements/r-3"
    assert anna.post(path, data={"token": token(page), "label": "cat"}).status_code == 400
    page = zoe.get("/review/disagreements")
    page = zoe.post(path, data={"token": token(page), "kind": "none"})
    assert page.url.path == "/review/disagreements"
    assert "Reviewers agree on everything." in page.text
    assert list(log.actions())[-1][1].what == "settle"


def test_without_keys_everybody_is_local_and_forms_still_need_a_token(log):
    made = client(log, keys=False)
    page = made.get("/review/next")
    assert page.url.path == "/review/item/r/1"
    assert "Sign out" not in page.text
    made.post("/review/item/r/1", data={"token": token(page), "label": "cat"})
    assert [one.reviewer for _, one in log.labels()] == ["local"]
    assert (
        client(log, keys=False).post("/review/item/r/1", data={"label": "cat"}).status_code == 401
    )


def test_many_classes_are_typed_and_keys_are_digits_then_letters(log):
    made = signed_in(log)
    page = made.get("/review/item/r-6").text
    assert page.count("<option") == 40
    assert 'list="classes"' in page
    names = tuple(f"c{n}" for n in range(28))
    keys = [key for _, key in keyed(names)]
    assert keys[:10] == [*"123456789", "a"]
    assert len(set(keys)) == 28
    assert not set(keys) & set("dglnqsu")
    assert keyed((*names, "one more")) == []
    assert keyed(("0", "7", "10")) == [("0", "0"), ("7", "7"), ("10", "a")]
    assert keyed(("b", "s", "x1")) == [("b", "b"), ("s", "1"), ("x1", "2")]


def test_a_service_below_a_path_keeps_its_links(log):
    app, root = FastAPI(), FastAPI()
    app.include_router(router(Service(log, None)))
    root.mount("/guards", app)
    made = TestClient(root)
    page = made.get("/guards/review/next")
    assert page.url.path == "/guards/review/item/r/1"
    assert 'href="/guards/review/style.css"' in page.text


def test_the_pages_of_a_service_review_what_it_decided(served, moon_files, moon_rows, tmp_path):
    """From a request to a label: keys of the service, its log, its classes."""
    from nescio.serving.keys import new_key

    keys = tmp_path / "keys.txt"
    asking = new_key(keys, "predict", "app")
    reviewing = new_key(keys, "review", "anna")
    running = served({"moons": moon_files[0]}, keys=keys)
    far = json.dumps({"inputs": (moon_rows[:3] + 50).tolist()}).encode()  # OOD: in the queue
    head = {"Authorization": f"Bearer {asking}", "Content-Type": "application/json"}
    with urlopen(Request(f"{running.url}/v1/predict", far, head)) as answer:
        ids = [one["id"] for one in json.load(answer)["decisions"]]
    browser = build_opener(HTTPCookieProcessor())

    def visit(path, **form):
        body = urlencode(form).encode() if form else None
        with browser.open(f"{running.url}{path}", body, timeout=20) as page:
            return urlsplit(page.url).path, page.read().decode()

    with pytest.raises(HTTPError, match="403") as refused:
        visit("/review/sign-in", key=asking)
    refused.value.close()
    assert visit("/review/sign-in", key=reviewing)[0] == "/review"
    path, text = visit("/review/next")
    assert path == f"/review/item/{ids[0]}"
    sent = re.search(r'name="token" value="([0-9a-f]{64})"', text)[1]
    assert visit(path, token=sent, label="1")[0] == f"/review/item/{ids[1]}"
