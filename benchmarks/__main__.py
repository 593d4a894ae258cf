"""Run the benchmarks: `python -m benchmarks [names] [--quick] [--peers-only] [--output FOLDER]`.

A full run rewrites docs/benchmarks.md and docs/benchmarks.json; a partial or quick one only prints,
unless a folder is given.
"""

import argparse
import datetime
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import report
from benchmarks.timing import OURS, ROOT, Benchmark, in_new_process, machine, measure

NAMES = (
    "regression_ensemble",
    "spiral_ensemble",
    "many_networks",
    "mc_dropout",
    "geometry",
    "noise",
    "images",
    "detectors",
    "observing",
    "metrics",
    "calibration",
    "scoring",
    "import_time",
)


def main() -> None:
    options = _options()
    names = options.names or NAMES
    if not (OURS.installed or options.peers_only):
        sys.exit("nescio is not installed: use make bench, or --peers-only to leave it out")
    results = []
    for name in names:
        for benchmark in _benchmarks(name):
            results.append(_run(benchmark, options.quick, options.peers_only))
            print(report.table(results[-1:]), flush=True)
    whole = not (options.names or options.quick or options.peers_only)
    folder = options.output or (ROOT / "docs" if whole else None)
    if folder is not None:
        date = datetime.date.today().isoformat()
        for path in report.write(folder, results, machine(), date):
            print(f"wrote {path}")


def _benchmarks(name: str) -> tuple[Benchmark, ...]:
    module = import_module(f"benchmarks.{name}")
    several: tuple[Benchmark, ...] = getattr(module, "BENCHMARKS", ())
    return several or (module.BENCHMARK,)


def _run(benchmark: Benchmark, quick: bool, peers_only: bool) -> report.Result:
    sides = [side for side in benchmark.peers if side.installed]
    for side in benchmark.peers:
        if not side.installed:
            print(f"{side.label} left out: {side.needs} is not installed", flush=True)
    if not peers_only:
        sides = [OURS, *sides]
    options = benchmark.quick if quick else {}
    numbers = measure(benchmark, sides, options, 1 if quick else benchmark.rounds)
    checks = () if peers_only else benchmark.checks
    found = {name: in_new_process(f"{benchmark.module}:{name}", {}) for name in checks}
    return report.Result(benchmark, numbers, found, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="few steps, to see that all works")
    parser.add_argument("--peers-only", action="store_true", help="leave nescio out")
    parser.add_argument("--output", type=Path, help="folder for benchmarks.md and benchmarks.json")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; known: {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    main()
