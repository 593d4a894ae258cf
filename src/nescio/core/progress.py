"""The one seam for progress bars: shown on a terminal, silent elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

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
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="")
        token = _shown.set(bar)
        try:
            yield lambda steps, note: bar.update(task, advance=steps, note=note())
        finally:
            _shown.reset(token)
