"""The decision log: what a batch of 64 costs to write, and how fast questions are answered.

`python -m benchmarks.decision_log --rows 10000000` fills a log in a temporary folder, or at --where
(a URL of PostgreSQL), with decisions of two guards, a tenth of which are in the review queue with
their inputs, and prints milliseconds: the median and the 99th percentile.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nescio.serving import DecisionLog, Entry, KeptInput, Label, open_log

BATCH, BATCHES = 64, 500
FILL = 10_000
KEPT = KeptInput("npy", bytes(400))


def entries(first: int, count: int) -> list[Entry]:
    """Decisions with ids that grow."""
    return [
        Entry(
            id=f"{number:016x}-0",
            time=1.7e9 + number / 100,
            replica="0",
            guard="ab"[number % 2],
            version="0123456789abcdef",
            digest=f"{number:032x}",
            decision="answer" if number % 10 else "ood",
            label="seven",
            probability=0.987,
            p_value=0.25,
            score=1.5,
            failure_score=-2.5,
            rule="threshold",
            in_range=True,
            set=None,
            more=None,
            picked=number % 10 == 0,
            propensity=1.0,
            kept=None if number % 10 else KEPT,
        )
        for number in range(first, first + count)
    ]


def show(name: str, milliseconds: list[float]) -> None:
    """Print the middle and the slow end."""
    middle, slow = np.quantile(milliseconds, [0.5, 0.99])
    print(f"{name:44} {middle:9.3f} {slow:9.3f}")


def writing(log: DecisionLog, first: int) -> None:
    """Batches of 64: the time until they are on the disk, and the processor's share of it."""
    wall, work = [], []
    for number in range(BATCHES):
        batch = entries(first + number * BATCH, BATCH)
        begin, begun = time.perf_counter(), time.thread_time()
        log.write(batch)
        wall.append(1e3 * (time.perf_counter() - begin))
        work.append(1e3 * (time.thread_time() - begun))
    show(f"write {BATCH}, on the disk", wall)
    show(f"write {BATCH}, processor", work)


def reading(log: DecisionLog, rows: int) -> None:
    """Questions that a service, a monitor and a reviewer ask."""
    middle = rows // 2
    calls: dict[str, Callable[[], Any]] = {
        "counts()": log.counts,
        "counts(guard)": lambda: log.counts(guard="a"),
        "decision(id)": lambda: log.decision(f"{middle:016x}-0"),
        "kept(id)": lambda: log.kept(f"{middle // 10 * 10:016x}-0"),
        "decisions(after the middle), 100": lambda: some(log.decisions(after=middle, limit=100)),
        "decisions(guard, after), 100": lambda: some(
            log.decisions(guard="a", after=middle, limit=100)
        ),
        "decisions(ood, newest first), 100": lambda: some(
            log.decisions(decision="ood", newest_first=True, limit=100)
        ),
        "decisions(guard, ood), 100": lambda: some(
            log.decisions(guard="a", decision="ood", limit=100)
        ),
        "decisions(since the last 1000), 100": lambda: some(
            log.decisions(since=1.7e9 + (rows - 1000) / 100, limit=100)
        ),
        "open_items()": log.open_items,
        "open_items(guard, reviewer, 2 reviews)": lambda: log.open_items(
            guard="a", reviewer="anna", reviews=2
        ),
    }
    for name, call in calls.items():
        call()
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - begin))
        show(name, times)


def some(found: Iterator[Any]) -> list[Any]:
    """All of a short answer."""
    return list(found)


def label(log: DecisionLog) -> None:
    """Labels of the older half of the queue."""
    picked = (one.id for one in log.decisions(picked=True))
    half = sum(log.counts().values()) // 20
    for begin in range(0, half, FILL):
        ids = list(islice(picked, min(FILL, half - begin)))
        log.add_labels(
            [Label(decision=id, reviewer="ben", kind="label", label="x", time=0.0) for id in ids]
        )


def main() -> None:
    """Fill a log, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--where", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = options.where or str(Path(folder) / "decisions.db")
        with open_log(where) as log:
            begin = time.perf_counter()
            for first in range(0, options.rows, FILL):
                log.write(entries(first, min(FILL, options.rows - first)))
            label(log)
            print(f"{options.rows} decisions, filled in {time.perf_counter() - begin:.0f} s")
            if not options.where:
                size = Path(where).stat().st_size / options.rows
                print(f"{size:.0f} bytes of a decision, inputs of 400 bytes with a tenth of them")
            print(f"{'milliseconds':44} {'median':>9} {'99 %':>9}")
            writing(log, options.rows)
            reading(log, options.rows)


if __name__ == "__main__":
    main()
