"""The command as a user calls it: `nescio --help`, and `nescio score` beside the bare network.

`start` is the same `score` on one row: python, torch, nescio, the guard; what is left for 300,000
rows of 64 features is divided by the bare network's time on rows in memory, on one thread each.

    python -m benchmarks.command
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.scoring import BATCH, FEATURES, _guard, _net, _rows

ROWS, ROUNDS = 300_000, 3
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def command(*words: str | Path) -> tuple[float, float]:
    """Seconds on the clock, and of processor time."""
    before, start = os.times(), time.perf_counter()
    called = [sys.executable, "-m", "nescio", *map(str, words)]
    subprocess.run(called, check=True, capture_output=True, env=ENVIRONMENT)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def bare(x: torch.Tensor, net: torch.nn.Module) -> float:
    """Seconds of processor time of the network alone."""
    start = time.process_time()
    with torch.inference_mode():
        for part in x.split(BATCH):
            net(part)
    return time.process_time() - start


def score(folder: Path, ending: str) -> None:
    """Print the passes of the bare network that `nescio score` takes beside its start."""
    net, x = _net(), _rows(ROWS)
    torch.set_num_threads(1)
    for name, rows in (("all", x), ("one", x[:1])):
        if ending == ".npy":
            np.save(folder / f"{name}.npy", rows.numpy())
        else:
            header = ",".join(f"f{i}" for i in range(FEATURES))
            np.savetxt(folder / f"{name}.csv", rows, "%.6g", ",", header=header, comments="")
    found = []
    for turn in range(ROUNDS):
        took = {}
        for name in ("one", "all"):
            out = folder / f"{turn}-{name}{ending}.csv"
            words = ("score", folder / "g.safetensors", folder / f"{name}{ending}", "--out", out)
            took[name] = command(*words)[1]
        found.append((took["all"] - took["one"], took["one"], bare(x, net)))
    work, start, alone = (min(one) for one in zip(*found, strict=True))
    print(f"score {ending}: start {start:.2f} s, then {work:.2f} s; bare {alone:.2f} s; "
          f"{work / alone:.2f} passes")  # fmt: skip


def main() -> None:
    for words in (["--help"], ["--version"], ["score", "--help"]):
        wall, used = (min(one) for one in zip(*(command(*words) for _ in range(5)), strict=True))
        print(f"nescio {' '.join(words)}: {wall:.2f} s, processor {used:.2f} s")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        _guard("energy").save(folder / "g.safetensors", weights=True)
        for ending in (".npy", ".csv"):
            score(folder, ending)


if __name__ == "__main__":
    main()
