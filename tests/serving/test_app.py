"""The service over HTTP: predictions, errors, keys, versions."""

import gzip
import http.client
import io
import json
import re
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nescio
from nescio.core import DamagedError, quiet
from nescio.serving import Client
from nescio.serving.decision_log import open_log
from nescio.serving.keys import new_key
from nescio.serving.service import Service

ARROW = "application/vnd.apache.arrow.stream"


def ask(
    url: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str
) -> tuple[int, Any, bytes]:
    """Status, headers and body of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named["Content-Type"] = kind
    request = urllib.request.Request(url + path, body, named)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def as_npy(x: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(x))
    return file.getvalue()


def test_decisions_are_those_of_score_to_the_letter(served, moon_files, moon_rows, tmp_path):
    guard = nescio.load(moon_files[0])
    nescio.score(guard, moon_rows.numpy(), tmp_path / "d.jsonl", progress=False)
    said = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    texts = [line.partition(",")[2] for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    with_name = served({"moons": moon_files[0]})
    status, headers, body = ask(
        with_name.url, "/v1/predict", as_npy(moon_rows), "application/x-npy"
    )
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    found = json.loads(body)
    assert found["guard"] == "moons"
    assert [row["id"] for row in found["decisions"]] == [
        f"{found['id']}-{at}" for at in range(len(moon_rows))
    ]
    for own, row in zip(said, found["decisions"], strict=True):
        assert {"sample": own["sample"], **{k: v for k, v in row.items() if k != "id"}} == own
    for text in texts:
        assert text.encode() in body
    assert {row["decision"] for row in found["decisions"]} >= {"answer", "ood"}


def test_one_by_one_and_together_are_the_same(served, moon_files, moon_rows):
    url = served(moon_files[0]).url
    with Client(url) as client:
        together = client.predict(moon_rows[:20])
        alone = [client.predict(moon_rows[at : at + 1])[0] for at in range(20)]
    for one in (*together, *alone):
        del one["id"]
    assert together == alone


def test_kinds_of_bodies_give_the_same(served, moon_files, moon_rows):
    pa = pytest.importorskip("pyarrow")
    running = served(moon_files[0])
    plain = json.dumps({"inputs": moon_rows[:5].tolist()}).encode()
    _, _, first = ask(running.url, "/v1/predict", plain)
    status, headers, arrow = ask(running.url, "/v1/predict", plain, Accept=ARROW)
    assert (status, headers["Content-Type"]) == (200, ARROW)
    table = pa.ipc.open_stream(arrow).read_all()
    rows = json.loads(first)["decisions"]
    assert table.column("decision").to_pylist() == [row["decision"] for row in rows]
    assert table.schema.metadata[b"guard"] == running.service.guards.names()[0].encode()


def test_decisions_are_in_the_log_before_the_answer(served, moon_files, moon_rows, tmp_path):
    running = served(moon_files[0], sample=1e-9)
    with Client(running.url) as client:
        found = client.predict(moon_rows)
    with open_log(tmp_path / "log.db") as log:
        logged = {one.id: one for one in log.decisions()}
        assert set(logged) == {row["id"] for row in found}
        for row in found:
            one = logged[row["id"]]
            assert (one.decision, one.rule) == (row["decision"], row["rule"])
            assert one.picked == (row["decision"] != "answer")
            assert (log.kept(one.id) is not None) == one.picked
        assert log.guards()[0]["version"] == running.service.version(None).version


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"[[1, 2, 3]]", "application/json", 422),
        (b'[["a", "b"]]', "application/json", 422),
        (b"[[1, 2], [3]]", "application/json", 422),
        (b"[[[1, 2]]]", "application/json", 422),
        (b"null", "application/json", 422),
        (b"7", "application/json", 422),
        (b"[" * 100_000, "application/json", 400),
        (b"\x93NUMPY\x01\x00", "application/x-npy", 400),
        (b"x", "text/plain", 415),
        (b"x", "", 415),
        (json.dumps([[0, 0]] * 200).encode(), "application/json", 413),
    ],
)
def test_bad_bodies_are_refused_in_words(served, moon_files, body, kind, status):
    url = served(moon_files[0], rows=100, log=None).url
    code, _, said = ask(url, "/v1/predict", body, kind)
    assert code == status
    assert json.loads(said)["error"]


def test_numbers_that_are_not_finite_or_huge_are_ood(served, moon_files):
    url = served(moon_files[0], log=None).url
    body = b"[[1e300, 0], [null, 1], [-1e38, 1e38]]"
    status, _, said = ask(url, "/v1/predict", body)
    assert status == 200
    assert [row["decision"] for row in json.loads(said)["decisions"]] == ["ood"] * 3


def test_unknown_guards_and_paths(served, moon_files):
    two = served({"a": moon_files[0], "b": moon_files[1]}, log=None)
    assert ask(two.url, "/v1/guards/c/predict", b"[[0, 0]]")[0] == 404
    assert ask(two.url, "/v1/predict", b"[[0, 0]]")[0] == 404  # which of them?
    assert ask(two.url, "/v1/guard")[0] == 404
    assert ask(two.url, "/nothing")[0] == 404
    assert ask(two.url, "/v1/guards/a/predict")[0] == 405
    assert ask(two.url, "/v1/guards/a/predict", b"[[0, 0]]")[0] == 200
    about = [json.loads(ask(two.url, path)[2]) for path in ("/v1/guards", "/v1/guards/b")]
    assert [one["guard"] for one in about[0]] == ["a", "b"]
    assert about[1]["guarantees"] == list(nescio.load(moon_files[1]).guarantees)
    assert about[1]["input"]["shape"] == [2]
    assert about[0][0]["version"] != about[0][1]["version"] == about[1]["version"]


def test_keys_and_roles(served, moon_files, tmp_path):
    path = tmp_path / "keys.txt"
    keys = {role: new_key(path, role, role) for role in ("predict", "review", "admin")}
    url = served({"m": moon_files[0]}, keys=path).url
    body = b"[[0, 0]]"
    status, headers, said = ask(url, "/v1/predict", body)
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Authorization" in json.loads(said)["error"]
    assert ask(url, "/v1/predict", body, Authorization="Bearer no")[0] == 401
    for key in keys.values():
        assert ask(url, "/v1/predict", body, Authorization=f"Bearer {key}")[0] == 200
        assert ask(url, "/v1/predict", body, X_API_Key=key)[0] == 200
    for path_ in ("/v1/guard", "/metrics", "/v2", "/v2/models/m"):
        assert ask(url, path_)[0] == 401
        assert ask(url, path_, X_API_Key=keys["predict"])[0] == 200
    for path_ in ("/health", "/ready", "/docs", "/openapi.json", "/v2/health/live"):
        assert ask(url, path_)[0] == 200
    load = "/v1/guards/m/load"
    assert ask(url, load, b"{}", X_API_Key=keys["review"])[0] == 403
    assert ask(url, load, b"{}", X_API_Key=keys["admin"])[0] == 200
    with Client(url, keys["predict"]) as client, pytest.raises(nescio.NescioError, match="403"):
        client.rollback("m")


def test_a_new_version_and_back(served, moon_files, tmp_path):
    path = tmp_path / "guard.safetensors"
    path.write_bytes(moon_files[0].read_bytes())
    running = served({"m": path})
    with Client(running.url) as client:
        first = client.about()["version"]
        assert client.load("m") == first  # nothing has changed
        path.write_bytes(moon_files[1].read_bytes())
        second = client.load("m")
        assert second != first
        assert client.about()["version"] == second
        assert client.about()["guard"] == "m"
        assert client.rollback("m") == first
        assert client.rollback("m") == second
        path.write_bytes(moon_files[0].read_bytes()[:-100])
        with pytest.raises(nescio.NescioError, match="422"):
            client.load("m")
        assert client.about()["version"] == second
        assert client.predict([[0.0, 0.0]])
    with open_log(tmp_path / "log.db") as log:
        actions = [(one.what, one.about, one.who) for _, one in log.actions()]
    assert actions[1:] == [
        ("load", "m", "local"),
        ("rollback", "m", "local"),
        ("rollback", "m", "local"),
        ("load refused", "m", "local"),
    ]


def test_only_allowed_files_are_loaded(served, moon_files, tmp_path):
    folder = tmp_path / "guards"
    folder.mkdir()
    (folder / "new.safetensors").write_bytes(moon_files[1].read_bytes())
    (folder / "way.safetensors").symlink_to(moon_files[1])
    alone, with_folder = served({"m": moon_files[0]}, log=None), None
    with_folder = served({"m": moon_files[0]}, log=None, guards_folder=folder)

    def load(running: Any, path: str) -> int:
        return ask(running.url, "/v1/guards/m/load", json.dumps({"path": path}).encode())[0]

    assert load(alone, str(moon_files[0])) == 200
    assert load(alone, str(moon_files[1])) == 403
    assert load(with_folder, str(moon_files[1])) == 403
    assert load(with_folder, "../guards/../x.safetensors") == 403
    assert load(with_folder, "way.safetensors") == 403
    assert load(with_folder, "a\0b") == 422
    assert load(with_folder, "none.safetensors") == 422
    assert load(with_folder, "new.safetensors") == 200


def test_what_cannot_be_loaded_is_said_with_what_to_send(served, moon_files):
    url = served({"m": moon_files[0]}, log=None).url

    def said(body: bytes, kind: str) -> str:
        status, _, text = ask(url, "/v1/guards/m/load", body, kind)
        assert status == 422
        return str(json.loads(text)["error"])

    form = said(b'{"path": "x"}', "application/x-www-form-urlencoded")
    assert form.endswith("with Content-Type: application/json; the keys are path, force")
    other = said(b'{"file": "x", "force": true}', "application/json")
    assert other == "body: there is no key 'file'; the keys are path, force"
    for body in (b"[]", b"{", b'{"force": 1}'):
        assert said(body, "application/json").startswith("body")


def test_another_shape_is_refused_unless_forced(served, moon_files, tmp_path):
    digits = nescio.data.digits()
    made = nescio.train(
        lambda: nescio.nets.mlp((1, 8, 8), 10), digits.train, epochs=1, progress=False
    )
    with quiet():
        other = nescio.guard(made.member(0), digits.test, train=digits.train, risk=0.5)
    other.save(tmp_path / "o.safetensors", weights=True)
    running = served({"m": moon_files[0]}, log=None, guards_folder=tmp_path)
    with Client(running.url) as client:
        with pytest.raises(nescio.NescioError, match="force"):
            client.load("m", "o.safetensors")
        assert len(client.predict([[0.0, 0.0]])) == 1
        client.load("m", "o.safetensors", force=True)
        assert client.about()["input"]["shape"] == [1, 8, 8]


def test_a_swap_under_load_drops_nothing(served, moon_files, moon_rows, tmp_path):
    path = tmp_path / "guard.safetensors"
    path.write_bytes(moon_files[0].read_bytes())
    running = served({"m": path})
    body = json.dumps(moon_rows[:3].tolist(), allow_nan=False).encode()
    stop, wrong, versions = threading.Event(), [], set()

    def load() -> None:
        host = running.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=20)
        while not stop.is_set():
            connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                wrong.append((answer.status, text))
                return
            versions.add(json.loads(text)["version"])
        connection.close()

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    with Client(running.url) as client:
        for at in (1, 0, 1):
            path.write_bytes(moon_files[at].read_bytes())
            client.load("m")
        client.rollback("m")
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(versions) == 2


def test_files_that_change_are_loaded_and_damaged_ones_are_not(served, moon_files, tmp_path):
    path = tmp_path / "guard.safetensors"
    path.write_bytes(moon_files[0].read_bytes())
    running = served({"m": path}, watch_files=0.05, log=None)
    loads = running.service.metrics.loads
    first = running.service.version("m").version
    path.write_bytes(b"damaged")
    _until(lambda: loads.value("m", "refused") == 1)
    assert running.service.version("m").version == first
    path.write_bytes(moon_files[1].read_bytes())
    _until(lambda: running.service.version("m").version != first)
    _until(lambda: loads.value("m", "loaded") == 1)


def test_a_network_that_fails_while_it_is_loaded_stops_no_watching(served, moon_files, tmp_path):
    path, broken = tmp_path / "guard.safetensors", threading.Event()
    path.write_bytes(moon_files[0].read_bytes())

    def reader(path: Path) -> Any:
        if broken.is_set():
            raise RuntimeError("of the user's own code")
        return nescio.load(path)

    running = served({"m": path}, readers={"m": reader}, watch_files=0.05, log=None)
    loads, first = running.service.metrics.loads, running.service.version("m").version
    broken.set()
    path.write_bytes(moon_files[1].read_bytes())
    _until(lambda: loads.value("m", "refused") == 1)
    assert running.service.version("m").version == first
    broken.clear()
    path.touch()
    _until(lambda: running.service.version("m").version != first)


def test_sighup_reads_keys_and_guards_again(served, moon_files, tmp_path):
    keys, path = tmp_path / "keys.txt", tmp_path / "guard.safetensors"
    new_key(keys, "predict", "anna")
    path.write_bytes(moon_files[0].read_bytes())
    running = served({"m": path}, keys=keys, log=None)
    first = running.service.version("m").version
    later = new_key(keys, "predict", "bo")
    path.write_bytes(moon_files[1].read_bytes())
    assert ask(running.url, "/v1/guard", X_API_Key=later)[0] == 401
    running.server.reload()
    _until(lambda: running.service.version("m").version != first)
    assert ask(running.url, "/v1/guard", X_API_Key=later)[0] == 200
    keys.write_text("nonsense")
    path.write_bytes(moon_files[0].read_bytes())
    running.server.reload()
    _until(lambda: running.service.metrics.loads.value("m", "loaded") == 2)
    assert ask(running.url, "/v1/guard", X_API_Key=later)[0] == 200


@pytest.fixture
def said(monkeypatch):
    """What services say, with the values."""
    found: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        Service, "say", lambda _, level, message, **more: found.append((message, more))
    )
    return found


def test_sighup_leaves_what_an_admin_loaded_where_the_file_did_not_change(
    served, moon_files, tmp_path, said
):
    keys, path, folder = tmp_path / "keys.txt", tmp_path / "guard.safetensors", tmp_path / "next"
    admin = new_key(keys, "admin", "eve")
    new_key(keys, "predict", "anna")
    folder.mkdir()
    path.write_bytes(moon_files[0].read_bytes())
    (folder / "next.safetensors").write_bytes(moon_files[1].read_bytes())
    running = served({"m": path}, keys=keys, guards_folder=folder)
    first = running.service.version("m").version
    with Client(running.url, admin) as client:
        second = client.load("m", "next.safetensors")
    said.clear()
    running.server.reload()
    _until(lambda: len(said) == 2)
    assert said == [
        ("the keys were read again", {"keys": 2}),
        ("no guard file has changed", {}),
    ]
    assert running.service.version("m").version == second
    path.write_bytes(moon_files[0].read_bytes())  # written again, so it counts
    running.server.reload()
    _until(lambda: running.service.version("m").version == first)
    path.touch()
    said.clear()
    running.server.reload()
    _until(lambda: ("a guard is the same", {"guard": "m", "version": first}) in said)
    # an action is written down after the guard has changed
    _until(lambda: [one.what for _, one in running.service.log.actions()] == ["load", "load"])


def test_an_admin_who_loads_the_file_of_the_start_leaves_nothing_to_watch(
    served, moon_files, tmp_path
):
    path = tmp_path / "guard.safetensors"
    path.write_bytes(moon_files[0].read_bytes())
    running = served({"m": path}, log=None)
    path.write_bytes(moon_files[1].read_bytes())
    with Client(running.url) as client:
        client.load("m")
    assert list(running.service.guards.changed()) == []


def test_watched_keys_come_and_go_and_damaged_ones_do_not(served, moon_files, tmp_path, said):
    keys = tmp_path / "keys.txt"
    first = new_key(keys, "predict", "anna")
    before = keys.read_text()
    running = served({"m": moon_files[0]}, keys=keys, watch_files=0.02, log=None)

    def status(key: str) -> int:
        return ask(running.url, "/v1/guard", X_API_Key=key)[0]

    def refused() -> int:
        return sum(what.startswith("the keys were not read again") for what, _ in said)

    later = new_key(keys, "predict", "bo")
    _until(lambda: status(later) == 200)
    assert ("the keys were read again", {"keys": 2}) in said
    keys.write_text("nonsense")
    _until(lambda: refused() == 1)
    keys.unlink()
    _until(lambda: refused() == 2)
    assert (status(first), status(later)) == (200, 200)
    keys.write_text(before)
    _until(lambda: status(later) == 401)
    assert status(first) == 200
    assert refused() == 2


def _until(true: Any) -> None:
    """Wait until something is true."""
    import time

    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_metrics_say_what_happened(served, moon_files, moon_rows):
    parser = pytest.importorskip("prometheus_client.parser")
    running = served({"m": moon_files[0]})
    with Client(running.url) as client:
        found = client.predict(moon_rows)
    assert ask(running.url, "/v1/predict", b"{")[0] == 400
    _, headers, text = ask(running.url, "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in parser.text_string_to_metric_families(text.decode())}
    decisions = {s.labels["decision"]: s.value for s in families["nescio_decisions"].samples}
    for name in ("answer", "ood"):
        assert decisions[name] == sum(row["decision"] == name for row in found)
    refused = {s.labels["reason"]: s.value for s in families["nescio_refused"].samples}
    assert refused == {"body": 1}
    counts = {s.name: s.value for f in families.values() for s in f.samples if "count" in s.name}
    assert counts["nescio_request_seconds_count"] == 1
    assert counts["nescio_log_write_seconds_count"] == 1
    assert counts["nescio_batch_rows_count"] == 1
    assert [s.value for s in families["nescio_queue_rows"].samples] == [0]


def test_the_pages_need_nothing_from_elsewhere(served, moon_files):
    url = served(moon_files[0], log=None).url
    status, headers, page = ask(url, "/docs")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"//" not in page.replace(b"<!doctype", b"")
    described = json.loads(ask(url, "/openapi.json")[2])
    for path in described["paths"]:
        assert path.encode() in page
    assert {"/v1/predict", "/v1/guards/{name}/predict", "/v2/models/{name}/infer"} <= set(
        described["paths"]
    )
    assert "503" in described["paths"]["/v1/predict"]["post"]["responses"]


def test_the_first_page_says_where_to_go(served, moon_files):
    for log, count in ((None, 1), ("here", 3)):
        url = served(moon_files[0], log=log).url
        status, headers, page = ask(url, "/")
        links = re.findall(r'href="(\w+)"', page.decode())
        assert (status, headers["Content-Type"][:9], len(links)) == (200, "text/html", count)
        assert [ask(url, f"/{link}")[0] for link in links] == [200] * count


def test_spans_say_what_was_decided(moon_files, moon_rows, served, monkeypatch):
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    running = served({"m": moon_files[0]}, log=None)
    assert not running.service.quick
    with Client(running.url) as client:
        found = client.predict(moon_rows)
        trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        asked = {"traceparent": f"00-{trace_id}-{parent}-01"}
        assert ask(running.url, "/v1/predict", b"[[0, 0]]", **asked)[0] == 200
    span, below = exporter.get_finished_spans()
    assert f"{below.context.trace_id:032x}" == trace_id
    assert f"{below.parent.span_id:016x}" == parent
    assert span.attributes["nescio.guard"] == "m"
    assert span.attributes["nescio.version"] == running.service.version("m").version
    assert span.attributes["nescio.rows"] == len(found)
    for name in ("answer", "unsure", "ood"):
        own = sum(row["decision"] == name for row in found)
        assert span.attributes[f"nescio.decision.{name}"] == own


def test_label_maps_and_groups_are_refused(moon_guards):
    from dataclasses import replace

    from nescio.serving.served_guards import ServedGuards

    with pytest.raises(nescio.NescioError, match="groups"):
        ServedGuards().add("m", replace(moon_guards[0], by="groups"))
    with pytest.raises(nescio.NescioError, match="not served"):
        ServedGuards().add("m", object())
    with pytest.raises(nescio.NescioError, match="letters"):
        ServedGuards().add("a/b", moon_guards[0])


def test_paths_of_files_that_are_not_there(tmp_path: Path) -> None:
    from nescio.serving.server import build_service

    with pytest.raises(nescio.NescioError):
        build_service(tmp_path / "none.safetensors", log=None)
    with pytest.raises(nescio.NescioError, match="no guard"):
        build_service({}, log=None)


def test_the_queue_and_the_watch_have_their_pages(served, moon_files, moon_rows):
    running = served({"m": moon_files[0]})
    with Client(running.url) as client:
        client.predict(moon_rows)
    assert ask(running.url, "/review")[0] == 200
    status, _, said = ask(running.url, "/v1/guards/m/watch")
    assert status == 200
    assert json.loads(said)["drift"]["decisions"] == len(moon_rows)
    assert b'nescio_drift{guard="m"}' in ask(running.url, "/metrics")[2]
    alone = served({"m": moon_files[0]}, log=None)
    assert ask(alone.url, "/review")[0] == 404
    assert ask(alone.url, "/v1/guards/m/watch")[0] == 404


def test_a_compressed_body_is_refused(served, moon_files, moon_rows):
    """A small one may hold more than the memory."""
    running = served({"moons": moon_files[0]})
    body = gzip.compress(as_npy(moon_rows))
    status, _, said = ask(
        running.url, "/v1/predict", body, "application/x-npy", Content_Encoding="gzip"
    )
    assert status == 415
    assert b"gzip" in said


def test_pages_of_other_sites_may_not_load(served, moon_files):
    url = served({"m": moon_files[0]}, log=None).url
    host = url.removeprefix("http://")
    load = "/v1/guards/m/load"
    for wrong in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert ask(url, load, b"{}", **wrong)[0] == 403
    for fine in ({"Origin": url}, {"Host": f"localhost:{host.split(':')[1]}"}, {}):
        assert ask(url, load, b"{}", **fine)[0] == 200


def test_without_keys_a_name_that_was_turned_to_this_machine_gets_nothing(served, moon_files):
    """Of a page whose name now means 127.0.0.1, the browser says its name in Host."""
    url = served({"m": moon_files[0]}).url
    port = url.rpartition(":")[2]
    row = b"[[0.5, 0.5]]"
    turned = {"Host": f"evil.example:{port}"}
    for path in ("/v1/guards", "/metrics", "/review", "/watch", "/v2", "/docs"):
        assert ask(url, path, **turned)[0] == 403
    for path in ("/v1/predict", "/v1/guards/m/predict", "/v2/models/m/infer"):
        assert ask(url, path, row, **turned)[0] == 403
        assert ask(url, path, row, Origin="http://evil.example")[0] == 403
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "localhost"):
        assert ask(url, "/v1/predict", row, Host=host)[0] == 200
        assert ask(url, "/review", Host=host)[0] == 200
    assert ask(url, "/v1/predict", row, Origin=url)[0] == 200
    assert ask(url, "/v1/predict", row, Host="[::1")[0] == 403


def test_with_keys_every_name_is_fine(served, moon_files, tmp_path):
    key = new_key(tmp_path / "keys.txt", "predict", "anna")
    url = served({"m": moon_files[0]}, keys=tmp_path / "keys.txt").url
    known = {"Authorization": f"Bearer {key}", "Host": "guards.example"}
    assert ask(url, "/v1/predict", b"[[0.5, 0.5]]", **known)[0] == 200
    assert ask(url, "/v1/guards", **known)[0] == 200


def test_a_guard_without_names_and_sets_has_numbers_as_classes(moon_guards):
    from nescio.serving.served_guards import class_names

    plain = replace(moon_guards[0], names=None, sets=None)
    assert class_names(plain) == ["0", "1"]


def test_what_the_log_refuses_is_not_the_fault_of_a_request(served, moon_files, monkeypatch):
    running = served({"m": moon_files[0]})

    def damaged(_: Any) -> None:
        raise DamagedError("the log is damaged")

    monkeypatch.setattr(running.service.log, "write", damaged)
    status, _, said = ask(running.url, "/v1/predict", b"[[0.5, 0.5]]")
    assert status == 503
    assert b"damaged" in said
