"""How work runs: threads, the memory that is kept, progress bars."""

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, TextIO, TypeVar

import torch

if TYPE_CHECKING:
    from rich.progress import Progress


BLOCK = 31 << 20  # bytes; the C library heeds no block above 32 MB


@cache
def keep_freed() -> None:
    """Let the process keep freed memory, up to 62 MB, for the next block.

    The C library of Linux gives back what is free at the end of its heap once that is more than
    twice the largest block ever freed: one block, never written to, raises that for good.
    """
    torch.empty(BLOCK, dtype=torch.uint8)


T = TypeVar("T")
R = TypeVar("R")


@cache
def _counters() -> tuple[Callable[[int], int | None], ...]:
    """What sets the number of threads for the calling thread alone: OpenMP's, and MKL's if used.

    `torch.set_num_threads` also sets the number that threads begin with which have not used torch
    yet, and these keep it for good.
    """
    library = ctypes.CDLL(torch._C.__file__)  # the symbols of what it is linked to
    names = ("omp_set_num_threads", "MKL_Set_Num_Threads_Local")
    return tuple(getattr(library, name) for name in names if hasattr(library, name))


def _set_threads(count: int) -> list[int | None]:
    """Set it for the calling thread; what was set before, where that is known."""
    return [put(count) for put in _counters()]


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block, or as a decorator a function, on one thread; no other thread is concerned.

    Where torch has no OpenMP of its own, it does nothing.
    """
    threads = torch.get_num_threads()  # of this thread, for which it also begins OpenMP
    if threads == 1:
        yield
        return
    before = _set_threads(1)
    try:
        yield
    finally:
        for put, old in zip(_counters(), [threads, *before[1:]], strict=False):
            put(old or 0)


@contextmanager
def workers(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of Python threads, each of which uses one thread of torch."""

    def alone() -> None:
        torch.get_num_threads()
        _set_threads(1)

    with ThreadPoolExecutor(threads, initializer=alone) as pool:
        yield pool


def in_order(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """What `work` makes of the items, in their order; some are worked on at a time, a thread each.

    At most one item more than there are threads is taken ahead.
    """
    with workers(threads) as pool:
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


def is_terminal(file: TextIO | None) -> bool:
    """Whether a person looks at it; a closed one is None."""
    return file is not None and not file.closed and file.isatty()


Advance = Callable[[int, Callable[[], str]], None]  # steps, and a note made only if shown


_shown: ContextVar["Progress | None"] = ContextVar("shown", default=None)


@contextmanager
def progress(total: int, label: str, *, show: bool | None = None) -> Iterator[Advance]:
    """Yield a function `advance(steps, note)`; a bar is drawn where stderr is a terminal.

    A bar within the block of another one is drawn below it, and goes when it is done.
    """
    if not (is_terminal(sys.stderr) if show is None else show):
        yield lambda _steps, _note: None
        return
    outer = _shown.get()
    if outer is not None:
        inner = outer.add_task(label, total=total, note="")
        yield lambda steps, note: outer.update(inner, advance=steps, note=note())
        outer.remove_task(inner)
        return
    from rich import progress as bars
    from rich.console import Console

    middle = bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn()
    words = ("{task.description}", "{task.fields[note]}")
    label_first, note_last = (bars.TextColumn(text, markup=False) for text in words)  # [a] is text
    with bars.Progress(label_first, *middle, note_last, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="")
        token = _shown.set(bar)
        try:
            yield lambda steps, note: bar.update(task, advance=steps, note=note())
        finally:
            _shown.reset(token)
