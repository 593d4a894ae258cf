"""Independent pieces of work in several processes, each with one thread."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import torch

from nescio.core import NescioError

T = TypeVar("T")
R = TypeVar("R")


def as_finished(work: Callable[[T], R], tasks: Sequence[T], workers: int) -> Iterator[R]:
    """What `work` makes of each task, as it is finished; with one worker in this process."""
    if workers == 1 or len(tasks) < 2:
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(tasks)), context, _begin)
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool as error:
        raise NescioError(
            "a worker process died; the same call goes on. In a script, make the call under "
            "`if __name__ == '__main__':`, or with one worker"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Set up a worker: one thread, Ctrl-C is the parent's, and no life after the parent's."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
