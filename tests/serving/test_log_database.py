"""A log that is full, locked, or gone: an error, nothing half-written, and on it goes."""

import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing, contextmanager

import pytest

from nescio.core import DamagedError, NescioError
from nescio.serving import KeptInput, open_log
from nescio.serving import log_database as database
from nescio.serving.decision_log import Label, LogFullError, LogUnavailableError


def label_of(one, reviewer):
    return Label(decision=one.id, reviewer=reviewer, kind="label", label="zero", time=1.0)


def ids(log):
    return [one.id for one in log.decisions()]


def test_a_file_that_may_not_grow(tmp_path, entry):
    with open_log(tmp_path / "decisions.db") as log:
        log.write([entry(1)])
        with log.database.reading() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LogFullError, match="make room"):
            log.write([entry(2), entry(3, kept=KeptInput("npy", bytes(1 << 20)))])
        assert ids(log) == [entry(1).id]
        with log.database.reading() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        log.write([entry(2)])
        assert ids(log) == [entry(1).id, entry(2).id]
        assert log.counts()["answer"] == 2


@contextmanager
def small_disk(folder, size):
    """A file system of some bytes; only root may mount one."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def write_until_full(log, entry, kept):
    """The ids of what was written before there was no room."""
    written = []
    for number in range(1, 200):
        batch = [entry(number, kept=kept), entry(number + 1000)]
        try:
            log.write(batch)
        except LogFullError:
            return written
        written += [one.id for one in batch]
    raise AssertionError("the disk was never full")


def test_a_disk_that_is_full(tmp_path, entry):
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        filler = disk / "filler"
        with open_log(disk / "decisions.db") as log:
            log.write([entry(0)])
            with open(filler, "wb") as file:
                file.write(bytes(300_000))
            kept = KeptInput("npy", bytes(20_000))
            written = [entry(0).id, *write_until_full(log, entry, kept)]
            assert ids(log) == written
            filler.unlink()
            log.write([entry(900, kept=kept)])
            assert ids(log) == [*written, entry(900).id]
            assert log.kept(entry(900).id) == kept
        with closing(sqlite3.connect(disk / "decisions.db")) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@contextmanager
def small_tablespace(server, folder, url):
    """A place of PostgreSQL on a small disk."""
    with small_disk(folder, 1 << 20) as disk:
        shutil.chown(disk, "postgres")
        server.run(f"CREATE TABLESPACE small LOCATION '{disk}'")
        try:
            yield disk
        finally:
            server.run("DROP SCHEMA nescio CASCADE")
            server.run("DROP TABLESPACE small")


def test_a_disk_of_postgresql_that_is_full(tmp_path_factory, postgresql, postgresql_url, entry):
    with (
        open_log(postgresql_url) as log,
        small_tablespace(postgresql, postgresql.folder / "disk", postgresql_url) as disk,
    ):
        postgresql.run("ALTER TABLE nescio.inputs SET TABLESPACE small")
        log.write([entry(0)])
        kept = KeptInput("npy", os.urandom(50_000))
        written = [entry(0).id, *write_until_full(log, entry, kept)]
        assert ids(log) == written
        subprocess.run(["mount", "-o", "remount,size=4M", str(disk)], check=True)
        log.write([entry(900, kept=kept)])
        assert ids(log) == [*written, entry(900).id]
        log.close()


def test_a_log_that_another_program_locks(tmp_path, entry, monkeypatch):
    monkeypatch.setattr(database, "BUSY", 0.05)
    path = tmp_path / "decisions.db"
    with open_log(path) as log:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LogUnavailableError, match="locked"):
                log.write([entry(1)])
            assert ids(log) == []  # who reads does not wait
            other.execute("ROLLBACK")
        log.write([entry(1)])
        assert ids(log) == [entry(1).id]


def test_a_file_that_is_removed_and_comes_back(tmp_path, entry):
    path = tmp_path / "decisions.db"
    with open_log(path) as log:
        log.write([entry(1)])
        with closing(sqlite3.connect(path)) as plain:
            plain.execute("VACUUM INTO ?", [str(tmp_path / "copy.db")])
        for one in tmp_path.glob("decisions.db*"):
            one.unlink()
        with pytest.raises(LogUnavailableError, match="gone"):
            log.write([entry(2)])
        with pytest.raises(LogUnavailableError, match="gone"):
            ids(log)
        assert not path.exists()
        shutil.move(tmp_path / "copy.db", path)
        log.write([entry(2)])
        assert ids(log) == [entry(1).id, entry(2).id]


def test_sources_of_another_file_are_not_mixed_up(tmp_path, entry):
    path, other = tmp_path / "decisions.db", tmp_path / "other.db"
    with open_log(other) as log:
        log.write([entry(1, guard="cats")])
    with open_log(path) as log:
        log.write([entry(1, guard="dogs")])
        for one in tmp_path.glob("decisions.db*"):
            one.unlink()
        shutil.move(other, path)
        log.write([entry(2, guard="dogs")])
        assert [one.guard for one in log.decisions()] == ["cats", "dogs"]


def test_a_file_that_is_damaged(tmp_path, entry):
    path = tmp_path / "decisions.db"
    with open_log(path) as log:
        log.write([entry(number) for number in range(500)])
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DamagedError, match="damaged"):
        open_log(path)


def test_postgresql_stops_and_starts_again(postgresql, postgresql_url, entry):
    """It stops at once, as in a crash, and recovers."""
    with open_log(postgresql_url) as log:
        log.write([entry(1)])
        postgresql.stop()
        for _ in range(2):
            with pytest.raises(LogUnavailableError, match="cannot reach the database") as caught:
                log.write([entry(2)])
            assert "not-for-messages" not in str(caught.value)
        with pytest.raises(LogUnavailableError):
            ids(log)
        postgresql.start()
        log.write([entry(2)])  # at once, without a restart
        assert ids(log) == [entry(1).id, entry(2).id]


def test_a_connection_that_is_cut_is_made_again(postgresql, postgresql_url, entry):
    with open_log(postgresql_url) as log:
        log.write([entry(1)])
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        postgresql.run(f"{cut} WHERE application_name = 'nescio'")
        log.write([entry(2)])
        assert ids(log) == [entry(1).id, entry(2).id]


def test_postgresql_does_not_wait_forever_for_a_lock(
    postgresql, postgresql_url, entry, monkeypatch
):
    monkeypatch.setattr(database, "BUSY", 0.05)
    with open_log(postgresql_url) as log, open_log(postgresql_url) as other:
        log.write([entry(1)])
        with other.database.writing() as connection:
            connection.exec_driver_sql("LOCK TABLE entries IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(LogUnavailableError):
                log.write([entry(2)])
        log.write([entry(2)])
        assert ids(log) == [entry(1).id, entry(2).id]


def test_postgresql_does_not_work_forever_on_a_statement(
    postgresql, postgresql_url, entry, monkeypatch
):
    monkeypatch.setattr(database, "LONGEST", 300)
    with open_log(postgresql_url) as log:
        log.write([entry(1)])
        with pytest.raises(LogUnavailableError), log.database.writing() as connection:
            connection.exec_driver_sql("SELECT pg_sleep(20)")
        log.write([entry(2)])
        assert ids(log) == [entry(1).id, entry(2).id]
    postgresql.run("ALTER DATABASE postgres SET statement_timeout = 77000")  # the user's own stays
    try:
        with open_log(postgresql_url) as log, log.database.reading() as connection:
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "77s"
    finally:
        postgresql.run("ALTER DATABASE postgres RESET statement_timeout")


def test_labels_of_replicas_are_committed_in_the_order_of_their_numbers(postgresql_url, entry):
    """Who has read number 2 would never see a number 1 that is committed later."""
    with open_log(postgresql_url) as log, open_log(postgresql_url) as other:
        log.write([entry(1)])
        late = threading.Thread(target=other.add_labels, args=([label_of(entry(1), "ben")],))
        with log.database.writing() as connection:
            log._in_turn(connection)
            connection.exec_driver_sql("SELECT nextval(pg_get_serial_sequence('labels', 'seq'))")
            late.start()
            late.join(0.5)
            assert late.is_alive()
            assert not list(log.labels())
        late.join(10)
        assert [number for number, _ in log.labels()] == [2]


def test_commits_are_on_the_disk(log):
    with log.database.reading() as connection:
        if log.database.is_sqlite:
            pragma = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "auto_vacuum")
            }
            assert pragma == {
                "journal_mode": "wal",
                "synchronous": 2,  # FULL
                "foreign_keys": 1,
                "auto_vacuum": 2,  # INCREMENTAL
            }
        else:
            query = "SELECT current_setting('synchronous_commit'), current_setting('fsync')"
            assert connection.exec_driver_sql(query).one() == ("on", "on")


def test_a_server_that_does_not_wait_for_the_disk_is_overruled(postgresql, postgresql_url):
    postgresql.run("ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        with open_log(postgresql_url) as log, log.database.reading() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    finally:
        postgresql.run("ALTER DATABASE postgres RESET synchronous_commit")


def test_text_that_postgresql_does_not_take(postgresql_url, entry):
    with open_log(postgresql_url) as log:
        with pytest.raises(NescioError) as caught:
            log.write([entry(1, label="a\0b")])
        assert not isinstance(caught.value, LogUnavailableError)
        log.write([entry(1)])


def test_a_writer_waits_for_another_one(tmp_path, entry):
    """Two logs of one file in threads, each with its own lock."""
    path = tmp_path / "decisions.db"

    def work(name):
        with open_log(path) as log:
            for number in range(20):
                log.write([entry(id=f"{name}{number}", replica=name)])

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with open_log(path) as log:
        assert log.counts()["answer"] == 60
