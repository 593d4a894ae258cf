"""Requests of the Open Inference Protocol at random: rows or an error, and nothing else.

`python -m benchmarks.fuzz_tensors --count 10000`, as `benchmarks.fuzz_bodies` for other bodies.
"""

import argparse
import struct
from collections import Counter
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.fuzz_bodies import KINDS, LIMITS, guard, inputs, mutated
from nescio.serving.batching import RefusedError
from nescio.serving.bodies import BodyError
from nescio.serving.inference_protocol import read_request, rows_from

TYPES = {"<f4": "FP32", "<f8": "FP64", "<i8": "INT64"}


def tensor(name: str, array: NDArray[Any], *, binary: bool) -> tuple[dict[str, Any], bytes]:
    """A tensor as JSON, and the bytes that follow it."""
    said = {
        "name": name,
        "shape": list(array.shape),
        "datatype": TYPES.get(array.dtype.str, "BYTES"),
    }
    if not binary:
        return {**said, "data": array.reshape(-1).tolist()}, b""
    raw = array.tobytes()
    if array.dtype.kind == "U":
        words = [word.encode() for word in array.tolist()]
        raw = b"".join(struct.pack("<I", len(word)) + word for word in words)
    return {**said, "parameters": {"binary_data_size": len(raw)}}, raw


@cache
def seeds() -> list[tuple[str, bytes, int | None]]:
    """Requests that are read: the kind of guard, the bytes, and how many of them are JSON."""
    found: list[tuple[str, bytes, int | None]] = []
    for kind in KINDS:
        x = inputs(kind, 3)
        parts = {
            name: np.asarray(v) for name, v in (x if isinstance(x, dict) else {"x": x}).items()
        }
        for binary in (False, True):
            tensors = [tensor(name, array, binary=binary) for name, array in parts.items()]
            head = orjson.dumps({"inputs": [said for said, _ in tensors]})
            body = head + b"".join(raw for _, raw in tensors)
            found.append((kind, body, len(head) if binary else None))
    return found


def outcome(kind: str, body: bytes, length: int | None) -> str:
    """What becomes of a request: "rows", or the status of its error."""
    asked: Any = SimpleNamespace(guard=guard(kind))
    service: Any = SimpleNamespace(limits=LIMITS)
    try:
        _, tensors = read_request(body, None if length is None else str(length))
        rows_from(tensors, asked, service).kept(0)
    except (RefusedError, BodyError) as error:
        return str(error.status)
    return "rows"


def outcomes(count: int, seed: int = 0) -> Counter[str]:
    """What becomes of mutated requests; a third of their lengths are wrong."""
    draw, found = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        kind, body, length = seeds()[draw.integers(0, len(seeds()))]
        body = mutated(body, draw)
        if length is not None and draw.random() < 0.3:
            length = int(draw.integers(0, len(body) + 2))
        found[outcome(kind, body, length)] += 1
    return found


def main() -> None:
    """Send requests, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(dict(outcomes(asked.count, asked.seed)))


if __name__ == "__main__":
    main()
