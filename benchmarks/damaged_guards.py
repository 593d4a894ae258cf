"""Damaged guard files: `python -m benchmarks.damaged_guards --count 1000`.

Each is a guard file with one damage: a turned bit, a lost end, a stretch of zeros, two tensors that
changed places, an edited number, name, type, shape or offset in the header. It must be refused with
a message, or be the same guard: the same digest and the same decisions, column by column. Further
files are forged: edited, and then given the digest that belongs to the edit, as somebody does who
knows the format. They may load, and are counted alone: a digest does not say who wrote a file.
"""

import argparse
import json
import struct
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import nescio
from nescio import NescioError, nets
from nescio.core import quiet

Header = dict[str, Any]
NEW_TYPES = ("F64", "F32", "F16", "I64", "I32", "U8", "BOOL", "BF16", "X9")


def guards(folder: Path) -> dict[str, tuple[Path, Tensor]]:
    """Guard files of several kinds, each with inputs that it decides about."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=draw)
    torch.manual_seed(0)
    net = nets.mlp(4, 3, widths=(8,)).eval()
    with torch.no_grad():
        y = torch.multinomial((8 * net(x)).softmax(1), 1, generator=draw)[:, 0]
    numbers = nets.mlp(4, 1, widths=(8,)).eval()
    with torch.no_grad():
        targets = numbers(x) + 0.1 * torch.randn(400, 1, generator=draw)
    found = {}
    with quiet():
        made = {
            "default": nescio.guard(net, (x, y), train=(x + 0.01)[:200], risk=0.5),
            "energy": nescio.guard(net, (x, y), detector="energy", risk=0.5),
            "regression": nescio.guard(numbers, (x, targets), head="fixed_variance"),
        }
        for name, guard in made.items():
            path = folder / f"{name}.safetensors"
            guard.save(path, weights=True)
            found[name] = (path, x[:20] * 2)
    return found


def parts(content: bytes) -> tuple[Header, bytes]:
    """The header of a safetensors file, and its data."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def whole(header: Header, data: bytes) -> bytes:
    """A safetensors file of a header and data."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def turned(content: bytes, draw: Generator) -> bytes:
    """One to four bits, each the other way."""
    new = bytearray(content)
    for at in draw.integers(len(content), size=int(draw.integers(1, 5))):
        new[at] ^= 1 << int(draw.integers(8))
    return bytes(new)


def shortened(content: bytes, draw: Generator) -> bytes:
    """The end is lost, or a stretch in the middle."""
    at = int(draw.integers(len(content)))
    if draw.random() < 0.7:
        return content[:at]
    return content[:at] + content[at + int(draw.integers(1, 64)) :]


def zeroed(content: bytes, draw: Generator) -> bytes:
    """A block of zeros, as a disk leaves it after a crash."""
    at, size = int(draw.integers(len(content))), int(draw.choice([16, 512, 4096]))
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def swapped(content: bytes, draw: Generator) -> bytes:
    """Two tensors have each other's places, or types and shapes as well."""
    header, data = parts(content)
    one, two = draw.choice([name for name in header if name != "__metadata__"], 2, replace=False)
    if draw.random() < 0.5:
        header[one], header[two] = header[two], header[one]
    else:
        key = "data_offsets"
        header[one][key], header[two][key] = header[two][key], header[one][key]
    return whole(header, data)


def edited(content: bytes, draw: Generator) -> bytes:
    """A tensor's entry in the header says another name, type, shape or place."""
    header, data = parts(content)
    name = str(draw.choice([name for name in header if name != "__metadata__"]))
    how = draw.integers(5)
    if how == 0:
        header[name]["dtype"] = str(draw.choice(NEW_TYPES))
    elif how == 1:
        header[name]["shape"] = [1, *header[name]["shape"]]
    elif how == 2:
        header[name]["data_offsets"][int(draw.integers(2))] += int(
            draw.choice([-8, -4, 4, 1 << 60])
        )
    elif how == 3:
        header[f"{name}x"] = header.pop(name)
    else:
        del header[name]
    return whole(header, data)


def rewritten(content: bytes, draw: Generator) -> bytes:
    """A value in the manifest is another."""
    header, data = parts(content)
    manifest = json.loads(header["__metadata__"]["nescio"])
    _edit(manifest, draw)
    header["__metadata__"]["nescio"] = json.dumps(manifest)
    return whole(header, data)


def forged(content: bytes, draw: Generator) -> bytes:
    """A value in the manifest is another, and the digest fits it."""
    from nescio.core.files import _digest

    header, data = parts(content)
    manifest = json.loads(header["__metadata__"]["nescio"])
    _edit(manifest, draw)
    manifest["digest"] = _digest(manifest)
    header["__metadata__"]["nescio"] = json.dumps(manifest)
    return whole(header, data)


def _edit(node: Any, draw: Generator) -> None:
    """Change one value somewhere below."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = keys[int(draw.integers(len(keys)))]
    if isinstance(node[key], (dict, list)) and node[key] and draw.random() < 0.8:
        _edit(node[key], draw)
        return
    others: list[Any] = [
        None,
        -1,
        0,
        1e308,
        "",
        "x" * 9,
        [],
        {},
        True,
        [[[]]],
        {"a": {"b": 1}},
        2**70,
    ]
    if draw.random() < 0.2 and isinstance(node, dict):
        del node[key]
    else:
        node[key] = others[int(draw.integers(len(others)))]


DAMAGES: dict[str, Callable[[bytes, Generator], bytes]] = {
    one.__name__: one for one in (turned, shortened, zeroed, swapped, edited, rewritten)
}


def outcome(path: Path, x: Tensor, truth: tuple[str, dict[str, Any]]) -> str:
    """What becomes of a file: refused, the same, another guard, or an error without a message."""
    loaded: Any = None
    try:
        with quiet():
            loaded = nescio.load(path, kind="guard")
        now = decided(loaded, path, x)
    except NescioError as error:
        return "refused" if str(error) else "refused without a message"
    except BaseException as error:
        when = "while it was read" if loaded is None else "while it decided"
        return f"{type(error).__name__} {when}: {error}"[:200]
    same = now[0] == truth[0] and now[1].keys() == truth[1].keys()
    same = same and all(
        np.array_equal(now[1][k], truth[1][k], equal_nan=_real(now[1][k])) for k in now[1]
    )
    return "the same guard" if same else "another guard"


def _real(values: Any) -> bool:
    return bool(np.issubdtype(np.asarray(values).dtype, np.floating))


def decided(guard: Any, path: Path, x: Tensor) -> tuple[str, dict[str, Any]]:
    """The digest that a guard file says, and its decisions."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nescio.guards.about(path)["digest"], dict(guard(x).columns())


def run(
    count: int, seed: int = 0, damages: dict[str, Callable[[bytes, Generator], bytes]] | None = None
) -> dict[str, Counter[str]]:
    """Damage `count` files and count what became of them, by kind of damage."""
    damages = damages or DAMAGES
    found: dict[str, Counter[str]] = {name: Counter() for name in damages}
    draw = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        kinds = list(guards(Path(folder)).values())
        contents = [path.read_bytes() for path, _ in kinds]
        truths = [decided(nescio.load(path), path, x) for path, x in kinds]
        bad = Path(folder) / "damaged.safetensors"
        for number in range(count):
            name = list(damages)[number % len(damages)]
            kind = (number // len(damages)) % len(kinds)
            while (new := damages[name](contents[kind], draw)) == contents[kind]:
                pass
            bad.write_bytes(new)
            found[name][outcome(bad, kinds[kind][1], truths[kind])] += 1
    return found


def main() -> None:
    """Damage, count, and end with 1 if a file was accepted that should not have been."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.damaged_guards", description=__doc__
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = run(options.count, options.seed)
    made_up = run(options.count, options.seed, {"forged": forged})
    for name, counts in (found | made_up).items():
        print(f"{name:>10}  {dict(counts)}")
    total = sum(found.values(), Counter[str]())
    wrong = options.count - total["refused"] - total["the same guard"]
    print(f"{options.count} damaged: {wrong} neither refused nor the same")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
