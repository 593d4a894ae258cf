"""How long a body takes to become rows, and decisions to become an answer.

`python -m benchmarks.request_bodies` prints the median of many calls, in microseconds.
"""

import io
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import orjson
import torch
from torch import nn

import nescio
from nescio.serving.bodies import BodyLimits, read_body
from nescio.serving.decision_bytes import entry_columns, json_rows

LIMITS = BodyLimits()


def guard(width: int) -> nescio.Guard:
    """A guard of a linear network with `width` inputs."""
    torch.manual_seed(0)
    net = nn.Linear(width, 3).eval()
    with torch.no_grad():
        pairs = [(x, net(x).argmax(1)) for x in (torch.randn(300, width), torch.randn(200, width))]
    made: nescio.Guard = nescio.guard(
        net, pairs[0], train=pairs[1], risk=0.5, detector="energy", calibration_map=None
    )
    return made


def microseconds(call: Callable[[], object], repeats: int = 300) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * median(times)


def main() -> None:
    """Print all times."""
    torch.set_num_threads(1)
    for width in (64, 784):
        made = guard(width)
        for count in (1, 64):
            x = np.random.default_rng(0).random((count, width), dtype=np.float32)
            room = io.BytesIO()
            np.save(room, x)
            bodies = {
                "application/json": orjson.dumps({"inputs": x.tolist()}),
                "application/x-npy": room.getvalue(),
            }
            for kind, body in bodies.items():
                call = lambda kind=kind, body=body: read_body(kind, body, made, LIMITS)  # noqa: B023, E731
                print(f"{count} x {width}, {kind}: {microseconds(call):.0f} us")
    for count in (1, 64):
        found = made(torch.randn(count, 784))
        texts = microseconds(lambda: json_rows(found))  # noqa: B023
        entries = microseconds(lambda: entry_columns(found))  # noqa: B023
        print(f"{count} decisions: JSON {texts:.0f} us, entries of the log {entries:.0f} us")


if __name__ == "__main__":
    main()
