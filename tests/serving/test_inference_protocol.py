"""The Open Inference Protocol, asked by Triton's own client."""

import json
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest

import nescio
from nescio.core import quiet

triton = pytest.importorskip("tritonclient.http")


@pytest.fixture
def client(served, moon_files):
    running = served({"moons": moon_files[0]}, log=None)
    with triton.InferenceServerClient(running.url.removeprefix("http://")) as one:
        one.running = running
        yield one


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("moons")
    assert not client.is_model_ready("suns")
    assert client.get_server_metadata()["name"] == "nescio"
    about = client.get_model_metadata("moons")
    assert about["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 2]}]
    (version,) = about["versions"]
    assert client.is_model_ready("moons", version)
    assert client.get_model_metadata("moons", version) == about
    assert not client.is_model_ready("moons", "other")


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_decisions_are_those_of_the_guard(client, moon_files, moon_rows, sent, wanted):
    x = moon_rows[:-1].numpy()
    with quiet():
        columns = nescio.load(moon_files[0])(x).columns()
    tensor = triton.InferInput("input", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=sent)
    kinds = {one["name"]: one["datatype"] for one in client.get_model_metadata("moons")["outputs"]}
    assert set(kinds) == {"id", *columns}
    outputs = [triton.InferRequestedOutput(name, binary_data=wanted) for name in kinds]
    for asked in (outputs, None):
        found = client.infer("moons", [tensor], outputs=asked, request_id="mine")
        said = found.get_response()
        assert said["id"] == "mine"
        assert {one["name"]: one["datatype"] for one in said["outputs"]} == kinds
        for name, column in columns.items():
            own = found.as_numpy(name)
            if kinds[name] == "BYTES":
                own = np.array([w.decode() if isinstance(w, bytes) else w for w in own])
                assert own.tolist() == column.tolist()
            else:
                np.testing.assert_allclose(own, column)


def test_some_outputs_alone(client):
    tensor = triton.InferInput("x", [1, 2], "FP64")
    tensor.set_data_from_numpy(np.zeros((1, 2)))
    found = client.infer("moons", [tensor], outputs=[triton.InferRequestedOutput("decision")])
    assert [one["name"] for one in found.get_response()["outputs"]] == ["decision"]
    version = client.get_model_metadata("moons")["versions"][0]
    assert client.infer("moons", [tensor], model_version=version).as_numpy("label").shape == (1,)


def ask(url: str, body: Any, **headers: str) -> tuple[int, str]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{url}/v2/models/moons/infer", text, named)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]


def tensor(**changed: Any) -> dict[str, Any]:
    return {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [0, 0], **changed}


def test_what_is_wrong_is_said(client):
    url = client.running.url
    assert ask(url, {"inputs": [tensor()]})[0] == 200
    assert ask(url, {"inputs": [tensor(data=[[0, None]])]})[0] == 200
    wrong = [
        b"{",
        {},
        [],
        {"inputs": []},
        {"inputs": [1]},
        {"inputs": [tensor(name=3)]},
        {"inputs": [tensor(datatype="FP8")]},
        {"inputs": [tensor(shape=[1, -2])]},
        {"inputs": [tensor(shape=[])]},
        {"inputs": [tensor(shape=[1, True])]},
        {"inputs": [tensor(shape=[1, 3])]},
        {"inputs": [tensor(shape=[2, 1])]},
        {"inputs": [tensor(shape=[1 << 39, 1 << 39])]},
        {"inputs": [tensor(data=[0, "a"])]},
        {"inputs": [tensor(data=[0, True])]},
        {"inputs": [tensor(data=[[0], 0])]},
        {"inputs": [tensor(datatype="INT8", data=[1000, 0])]},
        {"inputs": [tensor(datatype="BYTES", data=["a", "b"])]},
        {"inputs": [tensor(data=None)]},
        {"inputs": [tensor(parameters={"binary_data_size": 8})]},
        {"inputs": [tensor(), tensor()]},
        {"inputs": [tensor(), tensor(name="other")]},
        {"inputs": [tensor()], "outputs": [{"name": "none"}]},
        {"inputs": [tensor()], "outputs": 3},
    ]
    for body in wrong:
        status, said = ask(url, body)
        assert status in (400, 422), body
        assert said
    head = json.dumps({"inputs": [tensor(data=None, parameters={"binary_data_size": 8})]}).encode()
    length = str(len(head))
    whole = head + np.zeros(2, "<f4").tobytes()
    assert ask(url, whole, Inference_Header_Content_Length=length)[0] == 200
    assert ask(url, whole + b"x", Inference_Header_Content_Length=length)[0] == 422
    for wrong_length in ("99999", "-1", "x"):
        assert ask(url, whole, Inference_Header_Content_Length=wrong_length)[0] == 400


def test_compressed_bodies_are_refused(client):
    status, said = ask(client.running.url, {"inputs": [tensor()]}, Content_Encoding="gzip")
    assert status == 415
    assert "gzip" in said


def test_what_cannot_be_answered_is_not_decided(served, moon_files):
    """An output that is not there is seen before there are decisions in the log."""
    running = served({"moons": moon_files[0]})
    asked = {"inputs": [tensor()], "outputs": [{"name": "nothing"}]}
    assert ask(running.url, asked)[0] == 422
    assert not list(running.service.log.decisions())


def test_large_bodies_are_read_on_a_thread(client):
    rows = 4000
    large = tensor(shape=[rows, 2], data=[[0.12345678901234567] * 2] * rows)
    status, said = ask(client.running.url, {"inputs": [large]})
    assert status == 200
    assert json.loads(said)["outputs"][0]["shape"] == [rows]
