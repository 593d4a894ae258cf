"""What the engine ray costs and gives, on two workers of this machine.

    python -m benchmarks.ray_engine             # all three
    python -m benchmarks.ray_engine ensemble    # ten networks: time, and the same weights?
    python -m benchmarks.ray_engine score       # a million rows, a worker killed: the same bytes?
    python -m benchmarks.ray_engine slope       # time against rows: the price of one row

The ideal is the time of the same work in one process on one thread, divided by the number of
workers. The start of the cluster is reported by itself: it is paid once. Each worker does a task
before the clock starts, as it imports torch with the first one.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

import nescio
from nescio import nets
from nescio.core import Engine, engine

WORKERS = 2
ROWS, FEATURES, GROUP = 1_000_000, 20, 50_000
SIZES = (125_000, 250_000, 500_000, 1_000_000)
OPTIONS: dict[str, Any] = {"members": 10, "epochs": 3, "batch_size": 64, "progress": False}


def started() -> tuple[Engine, float]:
    """A cluster of this machine whose workers are ready, and the seconds that it took."""
    began = time.perf_counter()
    made = engine("ray", workers=WORKERS)
    list(made.as_finished(_wait, list(range(2 * WORKERS))))
    return made, time.perf_counter() - began


def _wait(_: int) -> int:
    import nescio.guards.score  # noqa: F401  what scoring needs is imported before

    time.sleep(0.5)  # so that every worker has a task
    return os.getpid()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def ensemble(ray: Engine) -> dict[str, Any]:
    """Ten convolutional networks: on one thread here, and by the workers."""
    draws = torch.Generator().manual_seed(0)
    data = torch.rand(2048, 1, 28, 28, generator=draws), torch.arange(2048) % 10

    def make() -> nn.Module:
        made: nn.Module = nets.small_cnn((1, 28, 28), 10)
        return made

    alone, here = timed(lambda: nescio.train(make, data, **OPTIONS))
    apart, there = timed(lambda: nescio.train(make, data, engine=ray, **OPTIONS))
    same = all(torch.equal(t, there.tensors[name]) for name, t in here.tensors.items())
    ideal = alone / WORKERS
    return {
        "one thread, s": alone,
        "ideal, s": ideal,
        "ray, s": apart,
        "times the ideal": apart / ideal,
        "weights identical": same,
    }


def guarded() -> Any:
    """A guard of a small network on rows of numbers."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(6000, FEATURES, generator=draws)
    y = (x[:, 0] + 0.5 * torch.randn(6000, generator=draws) > 0).long()
    options: dict[str, Any] = {"epochs": 5, "progress": False}
    model = nescio.train(lambda: nets.mlp(FEATURES, 2), (x[:4000], y[:4000]), **options)
    return nescio.guard(model, (x[4000:], y[4000:]), train=(x[:4000], y[:4000]), risk=0.2)


def written(folder: Path, rows: int) -> Path:
    """A folder of Parquet files with so many rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    place = folder / f"rows-{rows}"
    place.mkdir()
    draws = np.random.default_rng(rows)
    for number, first in enumerate(range(0, rows, 4 * GROUP)):
        x = draws.normal(size=(min(4 * GROUP, rows - first), FEATURES)).astype(np.float32)
        table = pa.table({f"x{at}": x[:, at] for at in range(FEATURES)})
        parquet.write_table(table, place / f"{number:04d}.parquet", row_group_size=GROUP)
    return place


class Watch(threading.Thread):
    """The largest memory of this process and of each worker, and a worker that is killed."""

    def __init__(self, kill_after: float | None) -> None:
        super().__init__(daemon=True)
        self.kill_after, self.killed = kill_after, 0
        self.largest, self.over = {"here": 0.0, "worker": 0.0}, threading.Event()

    def run(self) -> None:
        began = time.perf_counter()
        while not self.over.wait(0.1):
            busy = workers()
            memory = [_megabytes(pid) for pid in busy]
            self.largest["worker"] = max([self.largest["worker"], *memory])
            self.largest["here"] = max(self.largest["here"], _megabytes(os.getpid()))
            due = self.kill_after is not None and not self.killed
            if due and busy and time.perf_counter() - began > (self.kill_after or 0):
                os.kill(busy[0], signal.SIGKILL)
                self.killed = busy[0]


def workers() -> list[int]:
    """Processes of workers that have a task of ours."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and (place / "cmdline").read_bytes().startswith(b"ray::_run"):
                found.append(int(place.name))
        except OSError:  # it is gone
            continue
    return found


def _megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    private = [int(line.split()[1]) for line in lines if line.startswith("Private")]
    return sum(private) / 1024


def score(ray: Engine, rows: int = ROWS) -> dict[str, Any]:
    """Rows of Parquet files: on one thread here, and by the workers, of which one is killed."""
    made = guarded()
    with TemporaryDirectory() as name:
        folder = Path(name)
        place = written(folder, rows)
        here, there = folder / "here.csv", folder / "there.csv"
        alone, _ = timed(lambda: nescio.score(made, place, here, progress=False))
        apart, _ = timed(
            lambda: nescio.score(made, place, folder / "calm.csv", engine=ray, progress=False)
        )
        watch = Watch(kill_after=0.3 * apart)
        watch.start()
        hurt, _ = timed(lambda: nescio.score(made, place, there, engine=ray, progress=False))
        watch.over.set()
        watch.join()
        same = len({_digest(path) for path in (here, there, folder / "calm.csv")}) == 1
    return {
        "rows": rows,
        "one thread, s": alone,
        "ray, s": apart,
        "times the ideal": apart / (alone / WORKERS),
        "ray with a worker killed, s": hurt,
        "workers killed": int(watch.killed > 0),
        "bytes identical": same,
        "largest private memory here, MB": watch.largest["here"],
        "largest private memory of a worker, MB": watch.largest["worker"],
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        total = blake2b()
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def slope(ray: Engine) -> dict[str, Any]:
    """Seconds of scoring against rows, by the workers, and the line through them."""
    made, seconds = guarded(), []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for rows in SIZES:
            place = written(folder, rows)
            out = folder / f"{rows}.parquet"
            seconds.append(
                timed(lambda: nescio.score(made, place, out, engine=ray, progress=False))[0]  # noqa: B023
            )
    per_row, first = np.polyfit(SIZES, seconds, 1)
    line = first + per_row * np.array(SIZES)
    worst = float(np.abs(line / np.array(seconds) - 1).max())
    each = 1 / (per_row * WORKERS)
    return {
        "rows": list(SIZES),
        "seconds": seconds,
        "intercept, s": float(first),
        "microseconds per row": 1e6 * float(per_row),
        "largest distance from the line": worst,
        "rows per second and core": float(each),
        "core hours for a billion rows": 1e9 / float(each) / 3600,
    }


PARTS: dict[str, Callable[[Engine], dict[str, Any]]] = {
    "ensemble": ensemble,
    "score": score,
    "slope": slope,
}


def main() -> None:
    """Measure, and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=[], help=f"of {', '.join(PARTS)}; all")
    chosen = parser.parse_args().parts or list(PARTS)
    torch.set_num_threads(1)
    ray, start = started()
    found: dict[str, Any] = {"load before": os.getloadavg()[0], "start of the cluster, s": start}
    try:
        for name in chosen:
            found[name] = PARTS[name](ray)
            for what, value in found[name].items():
                shown = f"{value:.4g}" if isinstance(value, float) else value
                print(f"{name:10} {what:42} {shown}", flush=True)
    finally:
        ray.close()
    found["load after"] = os.getloadavg()[0]
    print(json.dumps(found))


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":  # before torch is imported
        again = subprocess.run(
            [sys.executable, "-m", "benchmarks.ray_engine", *sys.argv[1:]],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        sys.exit(again.returncode)
    main()
