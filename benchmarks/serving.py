"""How much `nescio serve` carries: `python -m benchmarks.serving WHAT`, where WHAT is one of

throughput: answers per second with 64 connections and one row per request, against one request at a
  time (FastAPI and the same guard) and LitServe, in alternating rounds; medians.
latency: percentiles at a constant rate of 70 % of the capacity, from the time at which a request
  was due.
overload: three times the capacity: whether each request is answered or refused with 503 within two
  seconds, and whether memory grows.
kills: kill -9 under load, again and again, with SQLite and PostgreSQL: whether each decision that a
  client received is in the log, once, and how long a restart takes.
disk-full: a log on a small disk: 507 while it is full, nothing by halves, and on when there is
  room.

ray: the application of deploy/ray-serve under a Ray Serve that is started here answers as a guard
  does by itself.

Each prints a table and JSON; --json writes it to a file.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import serving_faults, serving_ray
from benchmarks.serving_networks import NETWORKS, Served
from benchmarks.serving_sides import (
    PLAIN,
    Running,
    install_litserve,
    litserve_side,
    load,
    nescio_side,
    running,
    start_load,
    wrk,
)
from benchmarks.timing import machine

Found = dict[str, Any]
CONNECTIONS = 64
LOADED = 0.7  # of the capacity
CLIENTS = 2000  # at a time in an overload, more than the connections that the service takes


def throughput(served: Served, options: argparse.Namespace, folder: Path) -> Found:
    """Answers per second of each side; medians of rounds in which the sides alternate."""
    sides = [
        nescio_side("nescio serve"),
        nescio_side("nescio serve, no batches", "--max-batch", "1"),
    ]
    sides += [PLAIN]
    version = None
    if not options.no_litserve:
        version = install_litserve()
        sides += [litserve_side("network"), litserve_side("guard")]
    rounds: dict[str, list[Found]] = {side.label: [] for side in sides}
    for number in range(options.rounds):
        for place, side in enumerate(sides):
            own = _new(folder, f"{number}-{place}")
            with running(side, served, own) as server:
                wrk(server, seconds=min(2, options.seconds), connections=CONNECTIONS)
                found = wrk(server, seconds=options.seconds, connections=CONNECTIONS)
            rounds[side.label].append(found)
            _say(f"{served.name} round {number + 1}: {side.label} {found['per_second']:.0f}/s")
    medians = {
        label: {key: median(one[key] for one in each) for key in ("per_second", "p50", "p99")}
        | {"failed": sum(one["failed"] for one in each)}
        for label, each in rounds.items()
    }
    ours = medians["nescio serve"]["per_second"]
    times = {label: round(ours / max(one["per_second"], 1e-9), 2) for label, one in medians.items()}
    print(f"\n{served.name}, {CONNECTIONS} connections, one row per request")
    print(
        f"{'side':<26} {'answers/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'failed':>7} {'ours/it':>8}"
    )
    for label, one in medians.items():
        print(
            f"{label:<26} {one['per_second']:>10.0f} {1e3 * one['p50']:>8.1f} "
            f"{1e3 * one['p99']:>8.1f} {one['failed']:>7.0f} {times[label]:>8.2f}"
        )
    each = {label: [one["per_second"] for one in found] for label, found in rounds.items()}
    return {"medians": medians, "ours_over": times, "rounds": each, "litserve": version}


def latency(served: Served, options: argparse.Namespace, folder: Path) -> Found:
    """Percentiles of the latency at 70 % of the capacity."""
    with running(nescio_side("nescio serve", *options.more), served, folder) as server:
        capacity = _capacity(server, options)
        rate = options.rate or LOADED * capacity
        found = load(server, rate=rate, seconds=options.seconds, connections=256, timeout=5)
    answered = found["answered"]
    failed = sum(found["failed"].values()) + found["other"]["count"]
    ratio = answered["p99"] / answered["p50"]
    print(
        f"{served.name}: {rate:.0f}/s of {capacity:.0f}/s for {options.seconds:g} s: median "
        f"{1e3 * answered['p50']:.2f} ms, p99 {1e3 * answered['p99']:.2f} ms ({ratio:.2f} times), "
        f"p999 {1e3 * answered['p999']:.2f} ms, {failed} of {found['sent']} failed"
    )
    return {"capacity": capacity, "rate": rate, "p99_over_median": ratio, **found}


def overload(served: Served, options: argparse.Namespace, folder: Path) -> Found:
    """Three times the capacity: refusals, times and memory."""
    with running(nescio_side("nescio serve", *options.more), served, folder) as server:
        capacity = _capacity(server, options)
        rate, seconds = 3 * capacity, 60 * options.minutes
        process = start_load(server, rate=rate, seconds=seconds, connections=CLIENTS, timeout=2)
        memory: list[tuple[float, int]] = []
        start = time.perf_counter()
        while process.poll() is None:
            memory.append((time.perf_counter() - start, server.memory()))
            time.sleep(min(1.0, seconds / 60))
        text, _ = process.communicate()
        found: Found = json.loads(text)
    at, held = np.array(memory[len(memory) // 5 :]).T  # after it has filled its queues
    slope = float(np.polyfit(at / 60, held / 2**20, 1)[0]) if len(at) > 2 else float("nan")
    failed = sum(found["failed"].values())
    wrong = {k: n for k, n in found["status"].items() if k not in ("200", "503")}
    print(
        f"{served.name}: {rate:.0f}/s for {options.minutes:g} min, three times {capacity:.0f}/s: "
        f"{found['status']}, slowest answer {found['answered'].get('max', 0):.2f} s, "
        f"slowest 503 {found['other'].get('max', 0):.2f} s, {failed} without an answer within 2 s "
        f"{found['failed']}, other statuses {wrong}; memory {held[0] / 2**20:.0f} to "
        f"{held[-1] / 2**20:.0f} MiB, {slope:+.2f} MiB/min"
    )
    return {"capacity": capacity, "rate": rate, "memory_mib_per_minute": slope, **found}


def kills(served: Served, options: argparse.Namespace, folder: Path) -> Found:
    """kill -9 under load, with both databases."""
    return serving_faults.kills(served, folder, count=options.count, only=options.database)


def disk_full(served: Served, _: argparse.Namespace, folder: Path) -> Found:
    """A log on a disk that fills up."""
    return serving_faults.disk_full(served, folder)


def ray(served: Served, _: argparse.Namespace, folder: Path) -> Found:
    """The application of Ray Serve: what it answers."""
    return serving_ray.answers(served, folder)


def _capacity(server: Running, options: argparse.Namespace) -> float:
    """Answers per second with 64 connections."""
    if options.capacity:
        return float(options.capacity)
    load(server, rate=0, seconds=2, connections=CONNECTIONS, timeout=10)
    found = load(server, rate=0, seconds=options.probe, connections=CONNECTIONS, timeout=10)
    return float(found["answers_per_second"])


def _new(folder: Path, name: str) -> Path:
    own = folder / name
    own.mkdir(parents=True)
    return own


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


WORK: dict[str, Callable[[Served, argparse.Namespace, Path], Found]] = {
    "throughput": throughput,
    "latency": latency,
    "overload": overload,
    "kills": kills,
    "disk-full": disk_full,
    "ray": ray,
}


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--network", action="append", choices=NETWORKS, help="default: all")
    parser.add_argument("--seconds", type=float, help="of a round: 10; of latency: 60")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10, help="of the overload")
    parser.add_argument("--count", type=int, default=20, help="kills, with each database")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="default: both")
    parser.add_argument("--rate", type=float, help="of latency; default: 70 %% of the capacity")
    parser.add_argument("--capacity", type=float, help="answers per second; default: measured")
    parser.add_argument("--probe", type=float, default=5, help="seconds to measure the capacity")
    parser.add_argument("--no-litserve", action="store_true", help="leave the peer out")
    parser.add_argument("--more", nargs="*", default=[], help="further options of nescio serve")
    parser.add_argument("--folder", type=Path, help="for the files; default: a temporary one")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    options.seconds = options.seconds or (60 if options.what == "latency" else 10)
    options.more = [word.replace("=", " ", 1) for word in options.more]
    options.more = [part for word in options.more for part in f"--{word}".split(" ", 1)]
    return options


def main() -> None:
    """Measure, print, and write if asked."""
    options = _options()
    few = ("kills", "disk-full", "ray")
    names = options.network or (["digits"] if options.what in few else list(NETWORKS))
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="nescio-serving-") as temporary:
        folder = options.folder or Path(temporary)
        for name in names:
            own = _new(folder, name)
            found[name] = WORK[options.what](NETWORKS[name](own), options, own)
    text = json.dumps({"what": options.what, "machine": machine(), **found}, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
