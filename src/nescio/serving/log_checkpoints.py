"""The write-ahead file of SQLite, moved into the database on a thread.

SQLite does this within the commit that fills a thousand pages, for which requests would wait every
few hundred milliseconds. Here commits only append; a thread copies what they wrote, and commits
wait for the few pages that came meanwhile.
"""

import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

EVERY = 0.5  # seconds between two rounds
PAGES = 4096  # of the write-ahead file, 16 MB, from which on commits wait until it is empty
LARGEST = 16384  # pages at which a commit empties it, if no thread does
TRIES, PAUSE = 50, 0.003  # to find a moment in which nobody reads or writes; seconds between


class Checkpoints:
    """A thread that empties the write-ahead file of a log; it starts with the first commit.

    path: of the database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stop, self._wrote = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wrote(self) -> None:
        """Say that something was committed."""
        self._wrote.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._stop.is_set():
                    work = threading.Thread(target=self._work, name="nescio_log", daemon=True)
                    work.start()
                    self._thread = work

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._stop.set()
            self._wrote.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while self._wrote.wait() and not self._stop.wait(EVERY):
            self._wrote.clear()
            with suppress(sqlite3.Error):  # a full disk or a file that is gone: commits say so
                empty(self.path)


def empty(path: Path) -> tuple[int, int]:
    """Move the write-ahead file of `path` into it; gives its pages, and those that were moved.

    Nobody waits for others here: who empties a file holds off commits while it waits for readers.
    """
    name = f"file:{path.absolute().as_posix().replace('%', '%25').replace('?', '%3f')}?mode=rw"
    with closing(sqlite3.connect(name, uri=True, timeout=0)) as connection:
        busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        for _ in range(TRIES if pages > PAGES else 0):
            busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            if not busy:
                break
            time.sleep(PAUSE)
    return int(pages), int(moved)
