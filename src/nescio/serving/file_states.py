"""Whether a file has changed since it was last read."""

from pathlib import Path

FileState = tuple[int, int, int]  # time, size and number of a file


def file_state(path: Path) -> FileState | None:
    """What changes when a file is written or replaced; None: it cannot be looked at.

    path: of the file.
    """
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
