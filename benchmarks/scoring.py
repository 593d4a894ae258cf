"""Decisions about a million rows of 64 features, from a file to a file, against the bare network.

The network is 64-256-256-10, small, so that what is not the network shows; `networks` has larger
ones. Bare means: the rows are in memory, and their logits are computed a
batch at a time and dropped. The guard's side reads a file, decides and writes another one.
"""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Benchmark, Numbers, Side, use_threads

if TYPE_CHECKING:
    from torch import Tensor, nn

ROWS, FEATURES, CLASSES, WIDTH = 1_000_000, 64, 10, 256
TRAIN, HELD = 20_000, 10_000
BATCH = 256  # of the bare network: the fastest of 64 to 16,384

BENCHMARK = Benchmark(
    __name__,
    f"decisions about {ROWS:,} rows of {FEATURES} features, .npy to .csv, by energy",
    peers=(Side("the bare network", "bare"),),
    rounds=3,
    quick={"rows": 20_000},
    checks=("memory", "detectors", "networks"),
    note="`memory`: megabytes by which the process grew beyond those at its start, for a tenth of "
    "the rows and for all. `detectors`: seconds of processor time over those of the bare network, "
    "by detector, for a tenth of the rows. `networks`: the same by network, for two detectors; the "
    "guard's own work does not grow with the network, so its share falls.",
)


def nescio_side(rows: int = ROWS, detector: str = "energy", width: int = WIDTH) -> Numbers:
    from nescio.guards.score import score

    with tempfile.TemporaryDirectory() as folder:
        guard, path = _guard(detector, width), _file(Path(folder), rows)
        score(guard, path, Path(folder) / "warm.csv")  # the file is in the cache then
        wall, used = _timed(lambda: score(guard, path, Path(folder) / "d.csv", progress=False))
    return {"warm": wall, "processor": used, "rows a second": rows / wall}


def bare(rows: int = ROWS, width: int = WIDTH) -> Numbers:
    """The logits alone, of rows in memory."""
    import torch

    net, x = _net(width), _rows(rows)

    def run() -> None:
        with torch.inference_mode():
            for part in x.split(BATCH):
                net(part)

    run()
    wall, used = _timed(run)
    return {"warm": wall, "processor": used, "rows a second": rows / wall}


def memory() -> Numbers:
    """By how many megabytes the process grows; no part of it grows with the rows."""
    from nescio.guards.score import score

    found = {}
    for rows in (ROWS // 10, ROWS):
        with tempfile.TemporaryDirectory() as folder:
            guard, path = _guard("mahalanobis"), _file(Path(folder), rows)
            before = _now()
            Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
            score(guard, path, Path(folder) / "d.csv", progress=False)
            found[f"{rows:,} rows, MB"] = (_peak() - before) / 1024
    return found


def detectors() -> Numbers:
    """What each costs."""
    few = ROWS // 10
    names = ("energy", "mahalanobis", "knn", "default")
    alone = bare(few)["processor"]
    return {name: nescio_side(few, name)["processor"] / alone for name in names}


def networks() -> Numbers:
    """What the guard costs beside networks of two hidden layers."""
    few, found = ROWS // 10, {}
    for width in (256, 512, 1024):
        alone = bare(few, width)["processor"]
        for name in ("energy", "mahalanobis"):
            ratio = nescio_side(few, name, width)["processor"] / alone
            found[f"64-{width}-{width}-10, {name}"] = ratio
    return found


def _timed(work: Any) -> tuple[float, float]:
    """Seconds on the clock and of processor time, the latter fit for a busy machine."""
    wall, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - used


def _net(width: int = WIDTH) -> "nn.Module":
    import torch

    from nescio import nets

    use_threads()
    torch.manual_seed(0)
    return nets.mlp(FEATURES, CLASSES, widths=(width, width)).eval()


def _rows(count: int, seed: int = 1) -> "Tensor":
    import torch

    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))


def _guard(detector: str, width: int = WIDTH) -> Any:
    """Of a network that is right in 98 of 100 samples: labels are its own, but for those."""
    import torch

    from nescio.cli.work.guard import detector_named
    from nescio.guards import guard

    net, parts = _net(width), []
    for seed, count in ((2, TRAIN), (3, HELD)):
        x = _rows(count, seed)
        with torch.inference_mode():
            y = net(x).argmax(1)
        wrong = torch.rand(count, generator=torch.Generator().manual_seed(seed)) < 0.02
        parts.append((x, torch.where(wrong, (y + 1) % CLASSES, y)))
    options: dict[str, Any] = {"train": parts[0], "risk": 0.1, "progress": False}
    if detector != "default":
        options["detector"] = detector_named(detector)
    return guard(net, parts[1], **options)


def _file(folder: Path, rows: int) -> Path:
    import numpy as np

    path = folder / "x.npy"
    np.save(path, _rows(rows).numpy())
    return path


def _now() -> float:
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    """Kilobytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))
