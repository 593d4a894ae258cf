"""How many requests are accepted at a time, and what the others are told."""

import http.client
import json

import pytest
import torch

import nescio
from nescio import nets
from nescio.serving.admission import BUSY, FEWEST, Admission

pytest.importorskip("fastapi")


def test_nothing_is_measured_while_few_wait():
    admission = Admission(1000)
    for time in range(10):
        admission.measure(time, 3 * time, BUSY - 1)
    assert admission.rate is None
    assert admission.limit == 1000


def test_as_many_are_accepted_as_are_decided_in_half_a_second():
    admission = Admission(1000)
    for time in range(50):
        admission.measure(time, 600 * time, 300)
    assert admission.rate == pytest.approx(600)
    assert admission.limit == 300


def test_a_slow_guard_is_measured_over_its_batches():
    admission = Admission(1000)
    for tick in range(1000):
        admission.measure(0.1 * tick, 128 * (tick // 20), 300)  # 128 rows every 2 seconds
    assert admission.rate == pytest.approx(64, rel=0.1)
    assert admission.limit == pytest.approx(32, rel=0.1)


def test_the_limit_follows_a_change_and_stays_within_its_bounds():
    admission = Admission(1000)
    for time in range(50):
        admission.measure(time, 9000 * time, 300)
    assert admission.limit == 1000
    for time in range(50, 100):
        admission.measure(time, 9000 * 50 + time, 300)
    assert admission.limit == FEWEST
    for time in range(100, 150):
        admission.measure(time, 9000 * 51 + 800 * (time - 100), 300)
    assert admission.limit == pytest.approx(400, abs=1)


@pytest.fixture(scope="module")
def running():
    from nescio.serving.server import run_in_thread

    torch.manual_seed(0)
    net, x = nets.mlp(3, 2, widths=(4,)).eval(), torch.randn(200, 3)
    with torch.no_grad():
        y = torch.multinomial((8 * net(x)).softmax(1), 1)[:, 0]
    guard = nescio.guard(net, (x, y), detector="energy", risk=0.5, progress=False)
    with run_in_thread(guard) as started:
        yield started


def ask(line, path, body=None, **headers):
    method = "GET" if body is None else "POST"
    line.request(method, path, body, {"content-type": "application/json", **headers})
    answer = line.getresponse()
    return answer, json.loads(answer.read())


def test_a_request_too_many_is_refused_at_once_and_its_connection_stays(running):
    host = running.url.removeprefix("http://")
    connection, rows = http.client.HTTPConnection(host, timeout=10), b"[[0.0, 1.0, 2.0]]"
    assert ask(connection, "/v1/predict", rows)[0].status == 200
    place = connection.sock
    admission = running.service.batcher.admission
    usual, admission.limit = admission.limit, 0
    try:
        for path in ("/v1/predict", "/v1/guards/guard/predict?x=1", "/v2/models/guard/infer"):
            answer, said = ask(connection, path, rows)
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "too many requests" in said["error"]
        assert ask(connection, "/health")[0].status == 200  # others are not
        closed, _ = ask(connection, "/v1/predict", rows, connection="close")
        assert closed.status == 503
        assert closed.headers["connection"] == "close"
    finally:
        admission.limit = usual
    assert place.fileno() == -1  # closed as asked, and not before
    assert ask(connection, "/v1/predict", rows)[0].status == 200
    connection.close()
    assert running.service.metrics.refused.value("wait") == 4
