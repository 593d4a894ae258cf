"""Training on two threads while other work runs: `python -m benchmarks.busy_training`.

Networks just above the size from which a second thread is used: 50 steps of 100 members, and of
two convolutional ones, on one thread and on two in turn, on the machine as it is and beside
processes that only count. Goal: under load two threads take at most 1.5 times the time of one.
"""

import argparse
import subprocess
import sys
import time
from statistics import median

import torch

import nescio
from nescio import nets

STEPS, GOAL = 50, 1.5
COUNTING = "while True: sum(range(10_000))"


def dense(threads: int) -> float:
    """100 networks 8-50-50-2, batches of 32: 9 million multiply-adds at a time."""
    x = torch.randn(STEPS * 32, 8)
    return _timed(lambda: nets.mlp(8, 2, widths=(50, 50)), x, threads, members=100, batch_size=32)


def images(threads: int) -> float:
    """Two convolutional networks on small images."""
    x = torch.rand(STEPS * 32, 1, 28, 28)
    return _timed(lambda: nets.small_cnn((1, 28, 28), 2), x, threads, members=2, batch_size=32)


def _timed(make, x, threads, **options) -> float:  # type: ignore[no-untyped-def]
    torch.set_num_threads(threads)
    y = torch.arange(len(x)) % 2
    start = time.perf_counter()
    nescio.train(make, (x, y), epochs=1, seed=0, progress=False, **options)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy_training", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=int, default=2, help="processes beside it, when busy")
    options = parser.parse_args()
    for work in (dense, images):
        for busy in (0, options.load):
            beside = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(busy)]
            try:
                work(1)
                times = [(work(1), work(2)) for _ in range(options.rounds)]
            finally:
                for process in beside:
                    process.kill()
            one, two = (median(column) for column in zip(*times, strict=True))
            print(
                f"{work.__name__}, {busy} processes beside it: one thread {one:.2f} s, two "
                f"{two:.2f} s, ratio {two / one:.2f}" + (f" (goal: {GOAL})" if busy else "")
            )


if __name__ == "__main__":
    main()
