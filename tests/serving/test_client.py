"""The Python client: kinds of inputs, a 503 that is sent again, connections that were closed."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nescio import NescioError
from nescio.serving import Client
from nescio.serving.client import ServiceError, encoded


class Handler(BaseHTTPRequestHandler):
    """Answers what the test has put into the list."""

    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))
        status, headers, text = self.server.answers.pop(0)
        if status == 0:  # the connection breaks
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def fake() -> Iterator[Any]:
    """A server whose answers are given beforehand."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.answers, server.seen = [], []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


GOOD = (200, {}, json.dumps({"decisions": [{"id": "a-0", "decision": "answer"}]}).encode())
BUSY = (503, {"Retry-After": "0"}, b'{"error": "later"}')


def test_what_is_busy_is_asked_again(fake):
    fake.answers += [BUSY, BUSY, GOOD]
    with Client(fake.url, "key") as client:
        assert client.predict([[1.0]]) == [{"id": "a-0", "decision": "answer"}]
    assert len(fake.seen) == 3
    assert fake.seen[0][1]["Authorization"] == "Bearer key"
    fake.answers += [BUSY] * 3
    with (
        Client(fake.url, retries=2) as client,
        pytest.raises(ServiceError, match="later") as caught,
    ):
        client.predict([[1.0]])
    assert caught.value.status == 503


def test_a_connection_that_broke_is_made_again(fake):
    fake.answers += [GOOD, (0, {}, b""), GOOD]
    with Client(fake.url, guard="a b") as client:
        assert client.columns([[1.0]]) == {"id": ["a-0"], "decision": ["answer"]}
        assert len(client.predict([[1.0]])) == 1
    assert fake.seen[0][0] == "/v1/guards/a%20b/predict"


def test_errors_say_what_is_wrong(fake):
    fake.answers += [(422, {}, b'{"error": "two columns"}'), (200, {}, b"<html>")]
    with Client(fake.url) as client:
        with pytest.raises(ServiceError, match="422: two columns"):
            client.predict([[1.0]])
        with pytest.raises(ServiceError, match="no JSON"):
            client.predict([[1.0]])
    with pytest.raises(NescioError, match="http://HOST"):
        Client("localhost:80")
    with Client("http://127.0.0.1:9") as client, pytest.raises(NescioError, match="running"):
        client.predict([[1.0]])
    with Client("http://127.0.0.1:9") as client:
        assert not client.ready


def test_kinds_of_inputs(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for same in (x, torch.tensor(x)):
        kind, body = encoded(same)
        assert kind == "application/x-npy"
        (tmp_path / "x.npy").write_bytes(body)
        assert np.load(tmp_path / "x.npy").tolist() == x.tolist()
    assert encoded(tmp_path / "x.npy") == encoded(str(tmp_path / "x.npy"))
    (tmp_path / "a.PNG").write_bytes(b"image")
    assert encoded(tmp_path / "a.PNG") == ("image/png", b"image")
    rows = [{"age": 3, "name": "a"}, {"age": np.float64("nan"), "name": None}]
    kind, body = encoded(rows)
    assert (kind, json.loads(body)[1]) == ("application/json", {"age": None, "name": None})
    assert json.loads(encoded({"a": x, "b": [1, None]})[1]) == {"a": x.tolist(), "b": [1, None]}
    for wrong in (
        tmp_path / "x.txt",
        tmp_path / "none.png",
        [["a"]],
        [[1], [1, 2]],
        [{"a": set()}],
    ):
        with pytest.raises(NescioError):
            encoded(wrong)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_bytes_of_images_are_sent_as_what_they_are(kind):
    buffer = io.BytesIO()
    Image.new("L", (8, 6), 99).save(buffer, kind)
    wanted = (f"image/{kind.lower()}", buffer.getvalue())
    assert encoded(buffer.getvalue()) == encoded(memoryview(buffer.getvalue())) == wanted


def test_images_of_pillow_are_sent_without_loss():
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    kind, body = encoded(Image.fromarray(pixels))
    assert kind == "image/png"
    with Image.open(io.BytesIO(body)) as image:
        assert np.asarray(image).tolist() == pixels.tolist()
    with pytest.raises(NescioError, match="convert it"):
        encoded(Image.new("CMYK", (8, 6)))


def test_bytes_of_arrays_and_of_nothing():
    body = encoded(np.zeros((2, 3)))[1]
    assert encoded(body) == ("application/x-npy", body)
    for wrong in (b"", b"text", b"RIFF----WAVE"):
        with pytest.raises(NescioError, match="PNG, JPEG"):
            encoded(wrong)


def test_data_frames_are_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [3, 4], "name": ["a", None]})
    assert json.loads(encoded(frame)[1]) == [{"age": 3, "name": "a"}, {"age": 4, "name": None}]


def test_threads_share_a_client(served, moon_files, moon_rows):
    running = served(moon_files[0], log=None)
    found: list[Any] = [None] * 8
    with Client(running.url) as client:

        def work(at: int) -> None:
            found[at] = client.predict(moon_rows[at : at + 2])

        threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = client.predict(moon_rows[:9])
    for at, rows in enumerate(found):
        assert [row["score"] for row in rows] == [row["score"] for row in whole[at : at + 2]]
