"""Random requests on all routes of a service: `python -m benchmarks.fuzz_service --count 10000`.

Bodies are JSON of any shape, nested, with huge numbers and broken text, .npy files and images that
are whole, cut, or larger than they say, Arrow streams, compressed bombs, and bytes; with the header
that belongs to them or another one. Some requests are not HTTP, or end in the middle. No status may
be 500 or above but 503 and 507, the process must live, and afterwards a prediction is as before.
"""

import argparse
import gzip
import http.client
import io
import json
import socket
import struct
import sys
import tempfile
import urllib.request
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.serving_networks import digits
from benchmarks.serving_sides import JSON, Running, nescio_side, running

GOOD = (503, 507)
TYPES = (
    *("application/json", "application/x-npy", "image/png", "image/jpeg", "text/plain", ""),
    *("application/vnd.apache.arrow.stream", "multipart/form-data; boundary=x", "text/csv"),
    *("application/octet-stream", "application/x-www-form-urlencoded", "a" * 300, "é/ü"),
)
WORDS = ("inputs", "rows", "x", "data", "shape", "datatype", "name", "id", "path", "force", "label")
KNOWN = ("digits", "nope", "..", "%2e%2e", "a" * 500, "", "%00", "digits/x", "é", "0", "-1")
NUMBERS = (0, 1, -1, 0.5, 1e308, -1e308, 1e-320, 2**63, 2**70, 10**400, float("nan"), float("inf"))
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "FOO")


def value(draw: Generator, depth: int = 0) -> Any:
    """Any JSON value."""
    how = int(draw.integers(9 if depth < 4 else 6))
    if how < 2:
        return NUMBERS[int(draw.integers(len(NUMBERS)))]
    if how == 2:
        return float(draw.normal())
    if how == 3:
        return [None, True, False, "", "x", "\ud800", "\x00", "9" * 400][int(draw.integers(8))]
    if how < 6:
        size = int(draw.choice([1, 1, 1, 63, 64, 64, 65, 128]))
        return [float(one) for one in draw.random(size)]
    if how == 6:
        return {str(draw.choice(WORDS)): value(draw, depth + 1) for _ in range(draw.integers(5))}
    return [value(draw, depth + 1) for _ in range(draw.integers(6))]


def json_body(draw: Generator) -> bytes:
    """A body in JSON, or almost."""
    how = draw.integers(8)
    if how == 0:
        return b"[" * int(draw.choice([10, 1000, 100_000])) + b"]" * int(draw.integers(1000))
    if how == 1:
        return b'{"inputs":' * int(draw.choice([2, 2000])) + b"1"
    if how == 2:
        rows = draw.random((int(draw.integers(1, 5)), 64))
        return json.dumps({"inputs": rows.tolist()}).encode()
    if how == 3:
        tensor = {"name": "x", "datatype": str(draw.choice(["FP32", "INT64", "BYTES", "X"]))}
        more = {"shape": [int(n) for n in draw.integers(-2, 70, size=2)], "data": value(draw)}
        return json.dumps({"inputs": [{**tensor, **more}]}).encode("utf-8", "replace")
    text = json.dumps(value(draw)).encode("utf-8", "surrogatepass")
    if how == 4:
        return text[: int(draw.integers(len(text) + 1))]
    if how == 5:
        return text + bytes(draw.integers(0, 256, 5, dtype=np.uint8))
    return text


def npy_body(draw: Generator) -> bytes:
    """An array as a file, whole or not."""
    kind = str(draw.choice(["<f4", "<f8", "<i8", "|u1", "|b1", "<c8", "<U3"]))
    shape = tuple(int(n) for n in draw.integers(0, 66, size=int(draw.integers(0, 4))))
    if draw.random() < 0.5:
        kind, shape = "<f4", (int(draw.integers(0, 4)), 64)
    file = io.BytesIO()
    np.save(file, np.zeros(shape if np.prod(shape) < 1 << 16 else (2,), kind))
    body = file.getvalue()
    how = draw.integers(5)
    if how == 0:
        return body[: int(draw.integers(len(body)))]
    if how == 1:  # says that it is huge
        return body.replace(b"'shape': (", b"'shape': (9999999, ", 1)
    if how == 2:
        return body.replace(kind.encode(), b"|O", 1)
    if how == 3:
        new = bytearray(body)
        new[int(draw.integers(len(new)))] ^= 1 << int(draw.integers(8))
        return bytes(new)
    return body


def image_body(draw: Generator) -> bytes:
    """A PNG file: small, cut, or of a size that would fill the memory."""
    wide, high = (int(draw.choice([1, 8, 28, 60_000])) for _ in range(2))
    lines = b"".join(b"\0" + bytes(min(wide, 64)) for _ in range(min(high, 64)))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    body = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return body[: int(draw.integers(len(body)))] if draw.random() < 0.3 else body


def arrow_body(draw: Generator) -> bytes:
    """A stream of Arrow, whole or not."""
    import pyarrow as pa

    size = int(draw.integers(0, 4))
    names = [f"x{n}" for n in range(int(draw.choice([1, 63, 64])))]
    table = pa.table({name: draw.random(size) for name in names})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    body = bytearray(sink.getvalue().to_pybytes())
    for _ in range(int(draw.integers(4))):
        body[int(draw.integers(len(body)))] ^= 1 << int(draw.integers(8))
    return bytes(body[: int(draw.integers(len(body)))] if draw.random() < 0.2 else body)


def noise(draw: Generator) -> bytes:
    """Bytes."""
    return bytes(draw.integers(0, 256, int(draw.choice([0, 1, 100, 5000])), dtype=np.uint8))


BODIES = {
    "application/json": json_body,
    "application/x-npy": npy_body,
    "image/png": image_body,
    "application/vnd.apache.arrow.stream": arrow_body,
    "application/octet-stream": noise,
}


def request(
    draw: Generator, routes: list[tuple[str, str]]
) -> tuple[str, str, bytes, dict[str, str]]:
    """A method, a path, a body and headers."""
    method, path = routes[int(draw.integers(len(routes)))]
    if draw.random() < 0.5:  # most of the code is behind these
        method, path = "POST", str(draw.choice(["/v1/predict", "/v2/models/digits/infer"]))
    while "{" in path:
        before, _, rest = path.partition("{")
        name = KNOWN[0] if draw.random() < 0.6 else draw.choice(KNOWN)
        path = f"{before}{name}{rest.partition('}')[2]}"
    if draw.random() < 0.05:
        method = str(draw.choice(METHODS))
    if draw.random() < 0.1:
        path += "?" + "&".join(f"{draw.choice(WORDS)}={draw.choice(KNOWN)}" for _ in range(3))
    kind = str(draw.choice(list(BODIES)))
    body = BODIES[kind](draw)
    headers = {"Content-Type": kind if draw.random() < 0.8 else str(draw.choice(TYPES))}
    if draw.random() < 0.05:
        body = gzip.compress(bytes(1 << 20))
        headers["Content-Encoding"] = str(draw.choice(["gzip", "deflate", "br", "x"]))
    if draw.random() < 0.1:
        headers["Accept"] = str(draw.choice(TYPES))
    if draw.random() < 0.1:
        headers["Authorization"] = str(
            draw.choice(["Bearer x", "Basic x", "Bearer " + "é" * 9, ""])
        )
    if draw.random() < 0.05:
        headers["Inference-Header-Content-Length"] = str(draw.integers(-5, 2000))
    safe = "".join(one if " " < one < "\x7f" else "%41" for one in path)
    return (
        method,
        safe,
        body,
        {k: v.encode("latin-1", "replace").decode("latin-1") for k, v in headers.items()},
    )


def ask(connection: http.client.HTTPConnection, draw: Generator, routes: Any) -> tuple[int, str]:
    """The status of a random request, and what was asked."""
    method, path, body, headers = request(draw, routes)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status, f"{method} {path[:80]} {headers} {body[:200]!r}"


def raw(port: int, draw: Generator) -> int:
    """Bytes that are not HTTP, or a request that ends in the middle; the status, 0 for none."""
    whole = b"POST /v1/predict HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 50\r\n\r\n" + bytes(20)
    choices = [
        *(noise(draw), whole, whole.replace(b"50", b"-1"), whole.replace(b"50", b"9" * 30)),
        *(
            b"GET / HTTP/9.9\r\n\r\n",
            b"\r\n" * 100,
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        ),
        b"POST /v1/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFF\r\n",
        whole.replace(b"50", b"3\r\nTransfer-Encoding: chunked"),
        b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(2000)) + b"\r\n",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=5) as place:
        place.settimeout(0.05)
        try:
            place.sendall(choices[int(draw.integers(len(choices)))])
            said = place.recv(1000)
        except OSError:
            return 0
    return int(said[9:12]) if said.startswith(b"HTTP/1.1 ") else 0


def fuzz(server: Running, count: int, seed: int = 0) -> tuple[Counter[int], list[str]]:
    """Ask `count` times; how often each status came, and which requests got a wrong one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    routes = [(method.upper(), path) for path, one in paths.items() for method in one]
    routes += [("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/nope")]
    draw = np.random.default_rng(seed)
    found: Counter[int] = Counter()
    wrong: list[str] = []
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for number in range(count):
        if number % 20 == 19:
            found[raw(server.port, draw)] += 1
            continue
        try:
            status, asked = ask(connection, draw, routes)
        except (http.client.HTTPException, OSError) as error:
            connection.close()  # the server may close a connection whose body it will not read
            found[0] += 1
            if isinstance(error, TimeoutError):
                wrong.append(f"no answer within 20 s, request {number}")
            if server.process.poll() is not None:
                wrong.append(f"the process ended at request {number}")
                break
            continue
        found[status] += 1
        if status >= 500 and status not in GOOD:
            wrong.append(f"{status}: {asked}")
    return found, wrong


def main() -> None:
    """Ask, count, and end with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_service", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nescio-fuzz-") as name:
        folder = Path(name)
        served = digits(folder)
        with running(nescio_side("nescio serve"), served, folder) as server:
            before, memory = _decisions(server), server.memory()
            found, wrong = fuzz(server, options.count, options.seed)
            if _decisions(server) != before:
                wrong.append("a prediction is not as before")
            grown = (server.memory() - memory) / 2**20
            lines = server.output.read_text()
    for one in wrong[:20]:
        print(one)
    if "Traceback" in lines:
        wrong.append("a traceback")
        print(lines[lines.index("Traceback") :][:3000])
    print(
        f"{options.count} requests: {dict(sorted(found.items()))} (0: no status), "
        f"{len(wrong)} wrong; memory {grown:+.0f} MiB"
    )
    sys.exit(1 if wrong else 0)


def _decisions(server: Running) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{server.port}{server.side.path}"
    with urllib.request.urlopen(urllib.request.Request(url, server.first, JSON)) as answer:
        return [{**one, "id": None} for one in json.load(answer)["decisions"]]


if __name__ == "__main__":
    main()
