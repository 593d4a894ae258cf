"""Bodies at random: whatever is sent gives rows or an error that says why, in bounded memory.

`python -m benchmarks.fuzz_bodies --count 10000` sends mutated bodies of every type to guards of
every kind, and prints how many were read, how many were refused, the slowest one and the memory.
"""

import argparse
import io
import resource
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import nescio
from nescio import nets
from nescio.serving.bodies import BodyError, BodyLimits, read_body

JSON, NPY = "application/json", "application/x-npy"
STREAM, FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
KINDS = ("numbers", "images", "tokens", "table", "bundle", "recorded")
LIMITS = BodyLimits(body_bytes=1 << 20, rows=64, pixels=1 << 20)
SPLICES = (b"null", b"true", b"NaN", b"1e999", b"-", b"[[", b"]]", b"{}", b'"', b"\\u0000",
           b"\0" * 9, b"\xff" * 4, b"99999999999999999999", b"1e-400", b"\r\n", b"--x", b"ARROW1",
           b",,", b"\x7f\xff\xff\xff", b"inputs", b"rows")  # fmt: skip


class Both(nn.Module):
    """A network of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 5), nn.Linear(8, 2)

    def forward(self, ids: Tensor, row: Tensor) -> Tensor:
        """Logits of both."""
        out: Tensor = self.last(torch.cat([self.embedding(ids).mean(1), row], 1))
        return out


def inputs(kind: str, count: int) -> Any:
    """Inputs of one of the guards."""
    draw = torch.Generator().manual_seed(count)
    if kind == "tokens":
        return torch.randint(0, 20, (count, 6), generator=draw)
    if kind == "bundle":
        ids = torch.randint(0, 9, (count, 4), generator=draw)
        return {"ids": ids, "row": torch.randn(count, 3, generator=draw)}
    if kind == "table":
        rng = np.random.default_rng(count)
        size, age = rng.normal(size=(2, count)).round(3)
        return {"size": size, "age": age, "color": rng.choice(["red", "green", "blue"], count)}
    shape = {"numbers": (5,), "images": (1, 6, 8), "recorded": (7,)}[kind]
    return torch.rand(count, *shape, generator=draw) - 0.5


@cache
@torch.no_grad()
def guard(kind: str) -> Any:
    """A guard of each kind, cheap to make."""
    torch.manual_seed(0)
    options: Any = {"risk": 0.5, "progress": False, "detector": "energy", "calibration_map": None}
    if kind == "recorded":
        z = 3 * inputs(kind, 300)[:, :3]
        data = nescio.recorded(z, features=inputs(kind, 300)[:, 3:], labels=z.argmax(1))
        return nescio.guard(None, data, train=data, repeats=True, **options)
    make: dict[str, Any] = {
        "numbers": lambda: nn.Linear(5, 3),
        "images": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 3)),
        "tokens": lambda: nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 3)),
        "bundle": Both,
        "table": lambda: None,
    }
    net = make[kind]()
    encode: Any = lambda x: x  # noqa: E731
    if kind == "table":
        learned: Any = {"size": "continuous", "age": "continuous", "color": "categorical"}
        columns = nescio.data.learn_columns(inputs(kind, 200), learned)
        net = nets.encoded(nets.mlp(columns.width, 3, widths=(8,)), columns)
        encode = columns.numbers
    pairs = []
    for count in (300, 200):
        x = encode(inputs(kind, count))
        z = net.eval()(**x) if isinstance(x, dict) else net.eval()(x)
        pairs.append((x, z.argmax(1)))
    return nescio.guard(net, pairs[0], train=pairs[1], **options)


def npy(array: NDArray[Any]) -> bytes:
    """An array as a file."""
    room = io.BytesIO()
    np.save(room, array)
    return room.getvalue()


def arrow(columns: dict[str, Any], *, file: bool = False) -> bytes:
    """Columns as a stream or a file."""
    import pyarrow as pa

    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def picture(kind: str) -> bytes:
    """A small image in a format."""
    from PIL import Image

    room = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(room, kind)
    return room.getvalue()


@cache
def seeds() -> list[tuple[str, str, bytes]]:
    """Bodies that are read: the kind of guard, the type, the bytes."""
    import pyarrow as pa

    found: list[tuple[str, str, bytes]] = []
    for kind in KINDS:
        x = inputs(kind, 3)
        if kind == "table":
            rows = [dict(zip(x, row, strict=True)) for row in zip(*(v.tolist() for v in x.values()),
                                                                  strict=True)]  # fmt: skip
            rows[0]["size"] = None
            found += [(kind, JSON, orjson.dumps(given)) for given in ({"rows": rows}, rows[0])]
            found.append((kind, STREAM, arrow({name: v.tolist() for name, v in x.items()})))
            coded = {**x, "color": pa.array(x["color"].tolist()).dictionary_encode()}
            found.append((kind, STREAM, arrow(coded)))
            continue
        if kind == "bundle":
            found.append((kind, JSON, orjson.dumps({n: part.tolist() for n, part in x.items()})))
            continue
        array = x.numpy()
        flat = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array[0].size)
        found += [
            (kind, JSON, orjson.dumps({"inputs": array.tolist()})),
            (kind, NPY, npy(array)),
            (kind, STREAM, arrow({"x": flat})),
            (kind, FILE, arrow({"x": flat}, file=True)),
        ]
        if kind == "recorded":
            both = {"logits": array[:, :3].tolist(), "features": array[:, 3:].tolist()}
            found.append((kind, JSON, orjson.dumps(both)))
    formats = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
    found += [("images", "image/png", picture(name)) for name in formats]
    head = b'--x\r\nContent-Disposition: form-data; name="f"\r\nContent-Type: image/png\r\n\r\n'
    files = b"".join(head + picture(name) + b"\r\n" for name in ("PNG", "GIF"))
    found.append(("images", "multipart/form-data; boundary=x", files + b"--x--\r\n"))
    return found


def mutated(body: bytes, draw: np.random.Generator) -> bytes:
    """A body with some of its bytes changed, cut, repeated, or put in from elsewhere."""
    found = bytearray(body)
    for _ in range(int(draw.integers(0, 5))):
        at = int(draw.integers(0, len(found) + 1))
        end = min(len(found), at + int(draw.integers(1, 40)))
        how = draw.integers(0, 7)
        if how == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << int(draw.integers(0, 8))
        elif how == 1:
            del found[at:end]
        elif how == 2:
            found[at:at] = found[at:end] * int(draw.integers(1, 4))
        elif how == 3:
            found[at:at] = SPLICES[draw.integers(0, len(SPLICES))]
        elif how == 4:
            found[at:end] = draw.bytes(end - at)
        elif how == 5:
            del found[at:]
        else:
            other = seeds()[draw.integers(0, len(seeds()))][2]
            found[at:end] = other[at : at + int(draw.integers(1, 200))]
    return bytes(found)


def cases(count: int, seed: int = 0) -> Iterator[tuple[str, str, bytes]]:
    """Mutated bodies; a tenth are of another type or for another guard than they were made for."""
    draw = np.random.default_rng(seed)
    known = seeds()
    kinds = sorted({kind for _, kind, _ in known})
    for _ in range(count):
        which, kind, body = known[draw.integers(0, len(known))]
        if draw.random() < 0.05:
            kind = kinds[draw.integers(0, len(kinds))]
        if draw.random() < 0.05:
            which = KINDS[draw.integers(0, len(KINDS))]
        random = draw.bytes(int(draw.integers(0, 300))) if draw.random() < 0.03 else None
        yield which, kind, mutated(body, draw) if random is None else random


def outcome(which: str, kind: str, body: bytes) -> str:
    """What becomes of a body: "rows", or the status of its error."""
    try:
        rows = read_body(kind, body, guard(which), LIMITS)
    except BodyError as error:
        if error.status not in (400, 413, 415, 422) or not str(error):
            raise AssertionError(f"{error.status}: {error}") from error
        return str(error.status)
    if not 1 <= len(rows) <= LIMITS.rows or len(rows.inputs) != len(rows):
        raise AssertionError(f"{len(rows)} rows, {len(rows.inputs)} inputs")
    rows.kept(len(rows) - 1)
    return "rows"


def main() -> None:
    """Send bodies, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for kind in KINDS:
        guard(kind)
    for which, kind, body in seeds():
        assert outcome(which, kind, body) == "rows", (which, kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts: Counter[str] = Counter()
    slowest, began = 0.0, time.perf_counter()
    for case in cases(asked.count, asked.seed):
        start = time.perf_counter()
        counts[outcome(*case)] += 1
        slowest = max(slowest, time.perf_counter() - start)
    seconds = time.perf_counter() - began
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{asked.count} bodies in {seconds:.1f} s, the slowest in {slowest * 1e3:.1f} ms")
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{more / 1024:.0f} MB more than before")


if __name__ == "__main__":
    main()
