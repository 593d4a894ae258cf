"""The one seam for progress bars: shown on a terminal, silent elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, Callable[[], str]], None]  # steps, and a note made only if shown


@contextmanager
def progress(total: int, label: str, *, show: bool | None = None) -> Iterator[Advance]:
    """Yield a function `advance(steps, note)`; a bar is drawn where stderr is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _steps, _note: None
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
        yield lambda steps, note: bar.update(task, advance=steps, note=note())
