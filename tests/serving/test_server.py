"""Limits of connections and bodies, a full queue, the log that fails, TLS, and a clean end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import nescio
from nescio.serving import Client
from nescio.serving.decision_log import LogFullError, LogUnavailableError, open_log
from nescio.serving.server import build_service, check_tls
from nescio.serving.service_settings import ServiceSettings

BODY = b"[[0.5, 0.5]]"
JSON = {"Content-Type": "application/json"}


def connect(running: Any) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=20)


def post(running: Any, body: Any = BODY, **more: Any) -> tuple[int, Any, bytes]:
    with contextlib.closing(connect(running)) as connection:
        connection.request("POST", "/v1/predict", body, JSON, **more)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def raw(running: Any) -> socket.socket:
    host, port = running.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


class Held:
    """A guard that waits until it may go on."""

    def __init__(self, running: Any) -> None:
        self.go, self.busy = threading.Event(), threading.Event()
        version = running.service.version(None)
        inner = version.steady

        def steady(x: Any) -> Any:
            self.busy.set()
            self.go.wait(20)
            return inner(x)

        steady.least = 1  # type: ignore[attr-defined]
        object.__setattr__(version, "steady", steady)


def in_threads(work: Any, count: int) -> tuple[list[threading.Thread], list[Any]]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, found


def drip(line: socket.socket) -> None:
    for at in range(200):
        line.sendall(b"x-%d: y\r\n" % at)
        time.sleep(0.05)
    line.recv(1)


def keep_connecting(running: Any) -> None:
    while True:
        raw(running).close()
        time.sleep(0.01)


def until(true: Any) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_full_queue_is_refused_at_once(served, moon_files):
    running = served(moon_files[0], queue=4, log=None)
    held = Held(running)
    threads, found = in_threads(lambda: post(running)[0], 4)
    until(lambda: running.service.batcher.rows == 4)
    status, headers, said = post(running)
    assert (status, headers["Retry-After"]) == (503, "1")
    assert "try again" in json.loads(said)["error"]
    held.go.set()
    for thread in threads:
        thread.join()
    assert found == [200] * 4
    assert post(running)[0] == 200
    assert running.service.batcher.rows == 0


def test_a_request_larger_than_the_queue_is_decided_alone(served, moon_files):
    running = served(moon_files[0], queue=4, max_batch=2, log=None)
    status, _, said = post(running, json.dumps([[0.1, 0.2]] * 9).encode())
    assert status == 200
    assert len(json.loads(said)["decisions"]) == 9


def test_late_requests_are_refused_and_say_where_they_waited(served, moon_files):
    running = served(moon_files[0], timeout=0.3, max_batch=1, log=None)
    held = Held(running)
    threads, found = in_threads(lambda: post(running), 1)
    held.busy.wait(20)
    waiting, refused = in_threads(lambda: post(running), 1)
    for thread in (*threads, *waiting):
        thread.join()
    assert found[0][0] == 504
    assert "for the decision" in json.loads(found[0][2])["error"]
    assert refused[0][0] == 503
    assert "in the queue" in json.loads(refused[0][2])["error"]
    held.go.set()
    until(lambda: running.service.batcher.rows == 0)
    assert post(running)[0] == 200


def test_one_bad_request_of_a_batch_costs_the_others_nothing(served, moon_files):
    running = served(moon_files[0], log=None)
    held = Held(running)
    version = running.service.version(None)
    inner = version.steady

    def fails_on_far(x: Any) -> Any:
        found = inner(x)
        if (x > 1000).any():
            raise RuntimeError("secret numbers")
        return found

    object.__setattr__(version, "steady", fails_on_far)
    first, _ = in_threads(lambda: post(running), 1)
    held.busy.wait(20)
    good, fine = in_threads(lambda: post(running)[0], 3)
    bad, wrong = in_threads(lambda: post(running, b"[[5000, 1]]"), 1)
    until(lambda: running.service.batcher.rows == 5)
    held.go.set()
    for thread in (*first, *good, *bad):
        thread.join()
    assert fine == [200] * 3
    assert wrong[0][0] == 500
    assert b"secret" not in wrong[0][2]


def test_bodies_that_are_too_large_are_refused_while_they_come(served, moon_files):
    running = served(moon_files[0], body_bytes=100_000, log=None)
    with contextlib.closing(connect(running)) as connection:  # by what is said
        connection.request("POST", "/v1/predict", b" " * 200_000, JSON)
        assert connection.getresponse().status == 413
    parts = (b" " * 10_000 for _ in range(20))  # by what comes
    assert post(running, parts, encode_chunked=True)[0] in (411, 413)
    with contextlib.closing(raw(running)) as line:  # 100 MB that are only said: at once
        line.sendall(
            b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n"
        )
        assert line.recv(100).startswith(b"HTTP/1.1 413")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 100_000_000:
                sent += line.send(b" " * 65536)
        assert sent < 100_000_000  # it was cut off
    assert post(running)[0] == 200
    assert running.service.body_bytes == 0


def test_other_routes_have_the_same_limit(served, moon_files):
    running = served({"m": moon_files[0]}, body_bytes=1000, log=None)
    for path in ("/v2/models/m/infer", "/v1/guards/m/load", "/nothing"):
        with contextlib.closing(connect(running)) as connection:
            connection.request("POST", path, b" " * 2000, JSON)
            assert connection.getresponse().status == 413


def test_slow_requests_are_cut_off(served, moon_files):
    running = served(moon_files[0], head_seconds=0.2, body_seconds=0.3, log=None)
    starts = [
        b"",
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n[[",
    ]
    lines = [raw(running) for _ in starts]
    for line, start in zip(lines, starts, strict=True):
        line.sendall(start)
    for line in lines:
        with contextlib.closing(line), contextlib.suppress(ConnectionResetError):
            assert b"200" not in line.recv(1000)
    until(lambda: running.service.connections == 0)
    assert post(running)[0] == 200


def test_dripping_bytes_do_not_help(served, moon_files):
    running = served(moon_files[0], head_seconds=0.2, body_seconds=0.3, log=None)
    with contextlib.closing(raw(running)) as line:
        line.sendall(b"POST /v1/predict HTTP/1.1\r\n")
        with pytest.raises(OSError):
            drip(line)


def test_connections_are_limited(served, moon_files):
    running = served(moon_files[0], connections=3, log=None)
    lines = [raw(running) for _ in range(3)]
    until(lambda: running.service.connections == 3)
    with contextlib.closing(raw(running)) as line:
        head, _, body = line.recv(1000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in head
    assert f"content-length: {len(body)}".encode() in head
    json.loads(body)
    for line in lines:
        line.close()
    until(lambda: running.service.connections == 0)
    assert post(running)[0] == 200


def test_no_answer_without_the_log(served, moon_files, monkeypatch):
    running = served(moon_files[0])
    log = running.service.log
    whole = log.write

    def fails(error: Exception) -> Any:
        def write(_: Any) -> None:
            raise error

        return write

    monkeypatch.setattr(log, "write", fails(LogFullError("no room")))
    status, _, said = post(running)
    assert status == 507
    assert "no room" in json.loads(said)["error"]
    monkeypatch.setattr(log, "write", fails(LogUnavailableError("away")))
    status, headers, _ = post(running)
    assert (status, headers["Retry-After"]) == (503, "1")
    assert sum(log.counts().values()) == 0
    monkeypatch.setattr(log, "write", whole)
    assert post(running)[0] == 200
    assert sum(log.counts().values()) == 1


def test_what_was_accepted_is_answered_at_the_end(moon_files, tmp_path):
    from nescio.serving import run_in_thread

    with run_in_thread(moon_files[0], log=tmp_path / "log.db") as running:
        held = Held(running)
        threads, found = in_threads(lambda: post(running)[0], 3)
        until(lambda: running.service.batcher.rows == 3)
        running.server.should_exit = True
        until(lambda: running.service.draining)
        with pytest.raises(OSError):  # no longer accepted, soon
            keep_connecting(running)
        held.go.set()
        for thread in threads:
            thread.join()
        assert found == [200] * 3
    with open_log(tmp_path / "log.db") as log:
        assert sum(log.counts().values()) == 3


def test_draining_says_not_ready_and_answers(served, moon_files):
    running = served(moon_files[0], drain_seconds=0.5, log=None)
    with contextlib.closing(connect(running)) as connection:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == (200, {"status": "ready"})
        running.server.should_exit = True
        until(lambda: running.service.draining)
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        assert answer.status == 503
        answer.read()
        connection.request("POST", "/v1/predict", BODY, JSON)
        assert connection.getresponse().status == 200


def test_signals_end_the_process_with_code_0(moon_files, tmp_path):
    words = ["serve", f"m={moon_files[0]}", "--port", "0", "--json-lines", "--log", "log.db"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nescio", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process.stderr:
        said = json.loads(process.stderr.readline())
        assert said["message"] == "serving"
        assert said["log"] == "log.db"
        with Client(said["url"]) as client:
            assert client.ready  # it is said when the port accepts
            assert len(client.predict([[0.0, 0.0]])) == 1
            os.kill(process.pid, signal.SIGHUP)
            read_again = json.loads(process.stderr.readline())
            assert read_again["message"] == "no guard file has changed"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(20) == 0
        lines = [json.loads(line) for line in process.stderr]
    assert [line["message"] for line in lines][-1] == "stopped"
    with open_log(tmp_path / "log.db") as log:
        assert sum(log.counts().values()) == 1


@pytest.fixture
def certificate(tmp_path):
    """A certificate for this machine that nobody else has signed, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += f" -keyout {key} -out {cert} -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    try:
        subprocess.run(words.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return cert, key


def test_https(served, moon_files, certificate):
    cert, key = certificate
    running = served(moon_files[0], tls_cert=cert, tls_key=key, log=None)
    assert running.url.startswith("https://")
    with Client(running.url, verify=cert) as client:
        assert len(client.predict([[0.0, 0.0]])) == 1
    with Client(running.url) as client, pytest.raises(nescio.NescioError, match="verify"):
        client.predict([[0.0, 0.0]])
    with Client(running.url, verify=False) as client:
        assert client.ready


def test_files_of_tls_are_checked(tmp_path, certificate):
    cert, key = certificate
    assert check_tls(None, None) == {}
    for one, other in ((cert, None), (None, key), (tmp_path / "no", key), (key, cert)):
        with pytest.raises(nescio.NescioError):
            check_tls(one, other)
    assert ssl.PROTOCOL_TLS_SERVER


def test_other_machines_need_keys(moon_files):
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(nescio.NescioError, match="--new-key"):
            build_service(moon_files[0], log=None, settings=ServiceSettings(host=host))
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert ServiceSettings(host=host).local


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_batch": 0},
        {"queue": 0},
        {"timeout": 0},
        {"batch_ms": -1},
        {"sample": 2},
        {"sample": 0},
        {"reviews": 0},
        {"port": 70000},
        {"watch_files": 0},
        {"replica": ""},
        {"timeout": float("nan")},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(nescio.NescioError):
        ServiceSettings(**wrong)


def test_a_body_of_many_packets_arrives(served, moon_files):
    """Of 64 KB and more uvicorn stops reading, until somebody asks for the rest."""
    running = served({"m": moon_files[0]}, body_seconds=5.0)
    body = b"[[0.5, 0.5]" + b" " * 110_000 + b"]"
    with contextlib.closing(raw(running)) as line:
        for _ in range(2):  # also the second on the same connection
            line.sendall(
                b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            for start in range(0, len(body), 37_000):
                line.sendall(body[start : start + 37_000])
                time.sleep(0.1)
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 200")
