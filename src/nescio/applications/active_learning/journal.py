"""An append-only journal: a line for each event, synced, each with a digest of all before it.

A line that a kill left half written does not count, and the next one is written in its place. One
that was changed, removed or moved breaks the chain of digests and is refused.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nescio.core import DamagedError, NescioError, digest

Event = dict[str, Any]


def events_of(path: Path) -> list[Event]:
    """The events in their order; none where there is no journal yet."""
    return _read(_complete(path), path)[0]


def append(path: Path, events: Sequence[Mapping[str, Any]]) -> None:
    """Write events at the end, all or none: they are one line; the folder must be owned."""
    content = _complete(path)
    _, last = _read(content, path)
    line = json.dumps({"events": list(events), "digest": _chained(last, events)}) + "\n"
    try:
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(len(content))
            file.truncate()
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NescioError(f"cannot write {path}: {error.strerror}; nothing was noted") from error


def _complete(path: Path) -> bytes:
    """The lines that were written to their ends."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _read(content: bytes, path: Path) -> tuple[list[Event], str]:
    events: list[Event] = []
    last = ""
    for number, line in enumerate(content.splitlines(), 1):
        try:
            there = json.loads(line)
            last, chained = there["digest"], _chained(last, there["events"])
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, number) from error
        if last != chained:
            raise _damaged(path, number)
        events += there["events"]
    return events, last


def _damaged(path: Path, number: int) -> DamagedError:
    return DamagedError(
        f"{path} is damaged: line {number} is not what was written there; copy it again"
    )


def _chained(last: str, events: Sequence[Mapping[str, Any]]) -> str:
    return digest(last, json.dumps(list(events), sort_keys=True))
