"""Measurements, each in a process of its own, and the machine they ran on.

`python -m benchmarks.timing benchmarks.regression_ensemble:torch_loop` measures one side alone.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

THREADS = 2
ROOT = Path(__file__).resolve().parent.parent
Numbers = dict[str, float]


@dataclass(frozen=True)
class Side:
    """One way to do the work: a function of the benchmark's module that returns numbers."""

    label: str
    function: str
    needs: str = "torch"  # the package without which this side is left out

    @property
    def installed(self) -> bool:
        return find_spec(self.needs) is not None


@dataclass(frozen=True)
class Benchmark:
    """Some work, our side of it and the peers' sides."""

    module: str
    work: str
    peers: Sequence[Side]  # none: nobody else does it
    measures: Sequence[str] = ("warm",)
    rounds: int = 3
    quick: Mapping[str, Any] = field(default_factory=dict)  # options that make every side short
    checks: Sequence[str] = ()  # functions that compare results, run once
    note: str = ""
    ours: str = "nescio_side"  # our side's function

    @property
    def name(self) -> str:
        own = "" if self.ours == "nescio_side" else f": {self.ours}"
        return self.module.rpartition(".")[2] + own


OURS = Side("nescio", "", "nescio")  # each benchmark names its function


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cold_and_warm(work: Callable[[], object], repeats: int = 3) -> Numbers:
    """Seconds of the first call in this process, and the median of further ones."""
    cold = seconds(work)
    return {"cold": cold, "warm": median(seconds(work) for _ in range(repeats))}


def use_threads() -> None:
    """Give torch the number of threads that all sides have."""
    import torch

    torch.set_num_threads(THREADS)


def in_new_process(target: str, options: Mapping[str, Any]) -> Numbers:
    """Call "module:function" in a fresh Python and return its numbers."""
    command = [sys.executable, "-m", "benchmarks.timing", target, json.dumps(dict(options))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{target} failed:\n{done.stderr.strip()}")
    numbers: Numbers = json.loads(done.stdout.splitlines()[-1])
    return numbers


def medians(rounds: Sequence[Numbers]) -> Numbers:
    """The median over the rounds of every number."""
    return {key: median(numbers[key] for numbers in rounds) for key in rounds[0]}


def measure(
    benchmark: Benchmark, sides: Sequence[Side], options: Mapping[str, Any], rounds: int
) -> dict[str, Numbers]:
    """All sides in turn, and that `rounds` times, so that a slow minute hits all of them."""
    samples: dict[str, list[Numbers]] = {side.label: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            target = f"{benchmark.module}:{side.function or benchmark.ours}"
            samples[side.label].append(in_new_process(target, options))
    return {label: medians(numbers) for label, numbers in samples.items()}


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    packages = {name: _version(name) for name in ("torch", "jax", "numpy", "nescio")}
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "threads": str(THREADS),
        "python": platform.python_version(),
        **packages,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _share_cores() -> None:
    """Hold the process on as many cores as there are threads, for libraries that take them all."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def _child(target: str, options: str = "{}") -> None:
    _share_cores()
    module, _, function = target.partition(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(options))))


if __name__ == "__main__":
    _child(*sys.argv[1:])
