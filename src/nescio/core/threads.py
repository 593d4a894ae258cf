"""Threads and memory: how many torch uses, how much a call may take."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

# Freed memory that the next block of work uses again.

BLOCK = 31 << 20  # bytes; the C library heeds no block above 32 MB


@cache
def keep_freed() -> None:
    """Let the process keep freed memory, up to 62 MB, for the next block.

    The C library of Linux gives back what is free at the end of its heap once that is more than
    twice the largest block ever freed: one block, never written to, raises that for good.
    """
    torch.empty(BLOCK, dtype=torch.uint8)


# Threads: fewer where the work is small, as two would wait for each other, or a piece each.

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block, or as a decorator a function, on one thread, then put the number back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_order(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """What `work` makes of the items, in their order; some are worked on at a time, a thread each.

    At most one item more than there are threads is taken ahead.
    """
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        under_way: deque[Future[R]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) > threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
