"""Alarms sent to a server of this test: signed, tried again, never redirected."""

import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nescio.serving.alarm_webhook import SIGNATURE, Webhook, post


@pytest.fixture
def server():
    """What was posted, and the statuses that are answered first."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.posted.append((self.path, body, self.headers.get(SIGNATURE)))
            status = made.statuses.pop(0) if made.statuses else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "file:///etc/passwd")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.posted, made.statuses = [], []
    made.url = f"http://127.0.0.1:{made.server_address[1]}/hook"
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def delivered_by(hook, content, seconds=10):
    """Whether what is sent arrives, as the hook itself says."""
    told, arrived = threading.Event(), []
    hook.delivered = lambda _, ok: (arrived.append(ok), told.set())
    hook.send(content)
    assert told.wait(seconds)
    hook.close()
    return arrived[0]


def test_an_alarm_arrives_once_and_signed(server):
    assert delivered_by(Webhook(server.url, secret="hidden"), {"alarm": "drift"})
    ((path, body, signature),) = server.posted
    assert path == "/hook"
    assert json.loads(body) == {"alarm": "drift"}
    assert signature == "sha256=" + hmac.new(b"hidden", body, hashlib.sha256).hexdigest()


def test_a_server_with_errors_is_tried_again(server):
    server.statuses = [500, 503]
    assert delivered_by(Webhook(server.url, first_wait=0.01), {"alarm": "risk"})
    assert len(server.posted) == 3


def test_redirects_are_not_followed(server):
    server.statuses = [302]
    assert not post(server.url, b"{}")
    assert len(server.posted) == 1


def test_it_gives_up(server):
    server.statuses = [500] * 5
    assert not delivered_by(Webhook(server.url, first_wait=0.01, tries=2), {})
    assert len(server.posted) == 2


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "file:///etc/passwd", "ftp://127.0.0.1/", "http://[", "nonsense"]
)
def test_addresses_that_cannot_be_reached(url):
    assert not post(url, b"{}", timeout=1.0)


def test_sending_returns_at_once_where_nobody_answers():
    hook = Webhook("http://127.0.0.1:1/", first_wait=60.0)
    for number in range(200):  # more than may wait
        hook.send({"number": number})
    hook.close(0.1)


def test_what_is_cut_off_by_the_end_is_not_given_up(server):
    """The log then has no word about it, so that it is sent after a restart."""
    server.statuses = [500]
    told = []
    hook = Webhook(server.url, first_wait=60.0, delivered=lambda *said: told.append(said))
    hook.send({"alarm": "drift"})
    while not server.posted:
        time.sleep(0.01)
    hook.close(0.5)
    assert told == []
