"""The write-ahead file of a log is emptied on a thread, and stays small."""

import sqlite3
import threading
import time
from contextlib import closing

from nescio.serving import log_checkpoints
from nescio.serving.log_checkpoints import Checkpoints, empty


def database(path):
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (x BLOB)")
    return connection


def add(connection, count, size=2000):
    for _ in range(count):
        connection.execute("INSERT INTO t VALUES (randomblob(?))", (size,))


def wal(path):
    return path.with_name(path.name + "-wal").stat().st_size


def test_what_was_committed_is_moved(tmp_path):
    path = tmp_path / "a b%41?.db"
    with closing(database(path)) as connection:
        add(connection, 50)
        pages, moved = empty(path)
        assert pages == moved > 50
        size = wal(path)
        add(connection, 20)  # from the start of the file again
        assert wal(path) == size


def test_a_large_file_is_emptied_although_others_write(tmp_path, monkeypatch):
    monkeypatch.setattr(log_checkpoints, "PAGES", 100)
    path, stop = tmp_path / "d.db", threading.Event()
    connection = database(path)

    def write():
        while not stop.is_set():
            add(connection, 5)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(20):
        empty(path)
        time.sleep(0.01)
    stop.set()
    writer.join()
    rows = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    add(connection, 200)
    pages, moved = empty(path)
    assert pages == moved
    size = wal(path)
    add(connection, 50)
    assert wal(path) == size
    rows += 250
    connection.close()
    with closing(sqlite3.connect(path)) as again:
        assert again.execute("SELECT count(*) FROM t").fetchone()[0] == rows
        assert again.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_reader_holds_nothing_off(tmp_path, monkeypatch):
    monkeypatch.setattr(log_checkpoints, "PAGES", 10)
    monkeypatch.setattr(log_checkpoints, "PAUSE", 0)
    path = tmp_path / "d.db"
    with closing(database(path)) as connection, closing(sqlite3.connect(path)) as reader:
        add(connection, 20)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (20,)
        add(connection, 20)
        pages, moved = empty(path)
        assert pages > moved > 0  # what the reader does not see stays
        add(connection, 20)
        reader.rollback()
        pages, moved = empty(path)
        assert pages == moved


def test_the_thread_works_after_commits_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(log_checkpoints, "EVERY", 0.01)
    path, found = tmp_path / "d.db", []
    monkeypatch.setattr(log_checkpoints, "empty", lambda one: found.append(one))
    checkpoints = Checkpoints(path)
    checkpoints.close()  # before it began
    checkpoints = Checkpoints(path)
    checkpoints.wrote()
    end = time.monotonic() + 10
    while not found and time.monotonic() < end:
        time.sleep(0.005)
    checkpoints.close()
    assert found == [path]
    checkpoints.wrote()  # too late, and harmless
    assert threading.active_count() == 1 or all(
        one.name != "nescio_log" for one in threading.enumerate()
    )


def test_an_error_of_the_database_does_not_end_the_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(log_checkpoints, "EVERY", 0.01)
    checkpoints = Checkpoints(tmp_path / "none" / "d.db")  # there is no such file
    for _ in range(5):
        checkpoints.wrote()
        time.sleep(0.02)
    assert checkpoints._thread.is_alive()
    checkpoints.close()
