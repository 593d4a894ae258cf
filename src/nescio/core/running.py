"""How work runs: threads, the memory that is kept, progress bars."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, TypeVar

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


Advance = Callable[[int, Callable[[], str]], None]  # steps, and a note made only if shown


_shown: ContextVar["Progress | None"] = ContextVar("shown", default=None)


@contextmanager
def progress(total: int, label: str, *, show: bool | None = None) -> Iterator[Advance]:
    """Yield a function `advance(steps, note)`; a bar is drawn where stderr is a terminal.

    A bar within the block of another one is drawn below it, and goes when it is done.
    """
    if not (sys.stderr.isatty() if show is None else show):
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
    label_first, note_last = map(bars.TextColumn, ("{task.description}", "{task.fields[note]}"))
    with bars.Progress(label_first, *middle, note_last, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="")
        token = _shown.set(bar)
        try:
            yield lambda steps, note: bar.update(task, advance=steps, note=note())
        finally:
            _shown.reset(token)
