"""How many of nescio's files a call goes through: `python -m benchmarks.files_touched`.

A file is touched where one of its functions runs. Each call is made twice and the second is
followed, so that what runs on import, or once for all, does not count; nor do other processes.
A room is a folder or a module right below the package. `--list "nescio guard"` lists the files of
one call, `--json FILE` writes those of all.
"""

import argparse
import io
import json
import runpy
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

import nescio

PACKAGES = ("nescio", "nescio_papers")
NO_FUNCTION = "<module>"
SAMPLES, FEATURES, CLASSES, STEPS = 600, 8, 3, 60
RAYS, ATTACK_STEPS = 5, 3  # of an audit: few, for time
FACTORY = """from torch import nn

def make() -> nn.Module:
    return nn.Sequential(
        nn.Linear({0}, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, {1})
    )
"""


def touched(call: Callable[[], object]) -> list[str]:
    """The files in which a function runs when the call is made a second time."""
    seen: set[CodeType] = set()

    def follow(frame: FrameType, _event: str, _argument: Any) -> None:
        seen.add(frame.f_code)  # None: the lines of the function are not followed

    with redirect_stdout(io.StringIO()):
        call()
        threading.settrace(follow)
        sys.settrace(follow)
        try:
            call()
        finally:
            sys.settrace(None)
            threading.settrace(None)
    ran = {code.co_filename for code in seen if code.co_name != NO_FUNCTION}
    return sorted(short for file in ran if (short := _in_package(file)) is not None)


def room(file: str) -> str:
    package, _, rest = file.partition("/")
    in_dist = rest.partition("/")[0].removesuffix(".py")
    return in_dist if package == PACKAGES[0] else f"{package}/{in_dist}"


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """Commands and functions on small data in the folder, by name."""
    net, train, held, test = _network_and_data(folder)
    ood = {"far": test[0][:100] + 8}
    np.savez(folder / "far.npz", x=ood["far"].numpy())
    guard = nescio.guard(net, held, train=train, risk=0.1, false_alarm=0.05, progress=False)
    guard.save(folder / "made.safetensors")
    of_net = ("small_net:make", "--weights", "weights.pt", "--train", "train.npz")
    calibrated = ("--calibration", "held.npz", "--risk", "0.1", "--false-alarm", "0.05")
    compared = ("--data", "test.npz", "--ood", "far=far.npz")
    three = ("--detector", "msp", "--detector", "knn", "--detector", "mahalanobis")
    origin = test[0][:20].double()

    def make_net() -> nn.Module:
        made: nn.Module = runpy.run_path(str(folder / "small_net.py"))["make"]()
        return made

    return {
        "nescio audit": _command(  # on digits
            "audit", "--rays", str(RAYS), "--attack-steps", str(ATTACK_STEPS), out="audit"
        ),
        "nescio guard": _command("guard", *of_net, *calibrated, out="new.safetensors"),
        "nescio guard --detector": _command(  # mahalanobis in place of the combined default
            "guard", *of_net, *calibrated, *three[-2:], out="new.safetensors"
        ),
        "nescio score": _command(
            "score", "made.safetensors", "test.npz", "--net", *of_net[:3], out="decisions.csv"
        ),
        "nescio compare": _command("compare", *of_net, *compared, out="compared"),
        "nescio compare --detector": _command(  # three detectors in place of all
            "compare", *of_net, *compared, *three, out="compared"
        ),
        "nescio.audit": lambda: nescio.audit(
            net,
            test,
            train=train,
            validation=held,
            rays=RAYS,
            attack_steps=ATTACK_STEPS,
            progress=False,
        ),
        "nescio.guard": lambda: nescio.guard(
            net, held, train=train, risk=0.1, false_alarm=0.05, progress=False
        ),
        "guard(x)": lambda: guard(test[0]),
        "nescio.compare": lambda: nescio.compare(net, test, ood, train=train, progress=False),
        "nescio.train": lambda: nescio.train(make_net, train, members=2, epochs=2, progress=False),
        "nescio.geometry.far_field": lambda: nescio.geometry.far_field(
            net, origin, torch.ones_like(origin)
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", metavar="CALL", help="the files of one call")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the files of all calls")
    options = parser.parse_args()
    target = options.json and options.json.resolve()
    with tempfile.TemporaryDirectory() as name, chdir(name), patch("sys.path", [name, *sys.path]):
        known = calls(Path(name))
        if options.list is not None and options.list not in known:
            parser.error(f"no call {options.list!r}; there are {', '.join(known)}")
        chosen = known if options.list is None else {options.list: known[options.list]}
        found = {name: touched(call) for name, call in chosen.items()}
    if options.list is not None:
        print(*found[options.list], sep="\n")
    print(f"{'call':26} {'files':>6} {'rooms':>6}")
    for name, files in found.items():
        print(f"{name:26} {len(files):6} {len(set(map(room, files))):6}")
    if target:
        target.write_text(json.dumps(found, indent=1) + "\n")


Labeled = tuple[torch.Tensor, torch.Tensor]


def _network_and_data(folder: Path) -> tuple[nn.Module, Labeled, Labeled, Labeled]:
    """A small network, trained on three clouds of points; training, held-out and test data."""
    torch.manual_seed(0)
    y = torch.arange(SAMPLES) % CLASSES
    x = torch.randn(SAMPLES, FEATURES) + 2.0 * nn.functional.one_hot(y, FEATURES)
    train, held, test = zip(x.split(SAMPLES // 3), y.split(SAMPLES // 3), strict=True)
    for name, (inputs, labels) in {"train": train, "held": held, "test": test}.items():
        np.savez(folder / f"{name}.npz", x=inputs.numpy(), y=labels.numpy())
    (folder / "small_net.py").write_text(FACTORY.format(FEATURES, CLASSES))
    net: nn.Module = runpy.run_path(str(folder / "small_net.py"))["make"]()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(train[0]), train[1]).backward()
        optimizer.step()
    torch.save(net.state_dict(), folder / "weights.pt")
    return net.eval(), train, held, test


def _command(*arguments: str, out: str) -> Callable[[], None]:
    """`nescio ... --out OUT`, in a new folder each time: what is found there would be used."""

    def run() -> None:
        place = Path(tempfile.mkdtemp(dir=".")) / out
        with patch("sys.argv", ["nescio", *arguments, "--out", str(place)]):
            try:
                runpy.run_module("nescio", run_name="__main__")
            except SystemExit as stop:
                if stop.code:
                    raise RuntimeError(f"nescio {' '.join(arguments)}: {stop.code}") from stop

    return run


ROOTS = [
    Path(next(iter(spec.submodule_search_locations or ()))).resolve()
    for spec in map(find_spec, PACKAGES)
    if spec is not None
]


def _in_package(file: str) -> str | None:
    """The path from the package on, as in nescio/guarding/rules.py; None for other files."""
    path = Path(file)
    for root in ROOTS:
        if path.is_relative_to(root):
            return path.relative_to(root.parent).as_posix()
    return None


if __name__ == "__main__":
    main()
