"""Logs that cannot be opened: a clear error that says what to do, and never a password."""

import os
import sqlite3
import traceback
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from nescio.core import DamagedError, NescioError, NewerError
from nescio.serving import open_log
from nescio.serving.decision_log import LogUnavailableError


def refusal(where, kind=NescioError, **options):
    """The message of the error with which a log is not opened."""
    with pytest.raises(kind) as caught:
        open_log(where, **options)
    text = "".join(traceback.format_exception(caught.value))
    assert "secret" not in text
    assert "not-for-messages" not in text
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_addresses_that_are_not_of_a_log():
    assert "postgresql://USER" in refusal("mysql://anna:secret@host/db")
    assert "postgresql://USER" in refusal("://anna:secret@host")
    assert "postgresql://USER" in refusal("")
    assert "postgresql://USER" in refusal("postgresql://anna:secret@host:port/db")
    assert "sqlite:///decisions.db" in refusal("sqlite://")
    assert "sqlite:///decisions.db" in refusal("sqlite:///:memory:")


def test_a_url_of_sqlite_is_a_file(tmp_path, entry):
    with open_log(f"sqlite:///{tmp_path}/decisions.db") as log:
        log.write([entry()])
    with open_log(tmp_path / "decisions.db", create=False) as log:
        assert log.counts()["answer"] == 1
    assert "decisions.db" in repr(log)


def test_no_log(tmp_path, nowhere):
    assert "nescio serve" in refusal(nowhere, create=False)
    empty = tmp_path / "empty.db"
    empty.touch()
    assert "nescio serve" in refusal(empty, create=False)
    assert not (tmp_path / "decisions.db").exists()


def test_a_folder(tmp_path):
    assert "decisions.db" in refusal(tmp_path)


def test_a_file_that_is_not_a_log(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 100)
    assert "another file" in refusal(text, DamagedError)
    assert text.read_text() == "not a database " * 100


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE songs (name)")
    before = path.read_bytes()
    assert "not a decision log" in refusal(path, DamagedError)
    assert path.read_bytes() == before


def test_a_log_of_a_later_nescio(where):
    with open_log(where) as log, log.database.writing() as connection:
        connection.exec_driver_sql("UPDATE about_log SET value = '999' WHERE name = 'schema'")
    assert "update nescio" in refusal(where, NewerError)


def refusal_to_nobody(path, folder):
    """The message that a user without rights gets; for root, everything is writable."""

    def attempt():
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            open_log(path)
        except NescioError as error:
            answer.send(str(error))

    for one in (folder, *folder.parents):
        if one.is_relative_to("/tmp") and one != Path("/tmp") and one.stat().st_uid == os.geteuid():
            one.chmod(0o755)
    folder.chmod(0o555)
    fork = get_context("fork")
    received, answer = fork.Pipe(duplex=False)
    child = fork.Process(target=attempt)
    child.start()
    child.join(30)
    folder.chmod(0o755)
    return received.recv() if received.poll() else ""


def test_a_folder_that_is_read_only(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    message = refusal_to_nobody(closed / "decisions.db", closed)
    assert "Permission denied" in message
    assert "another place" in message


def test_a_file_that_is_read_only(tmp_path):
    path = tmp_path / "closed" / "decisions.db"
    open_log(path).close()
    path.chmod(0o444)
    assert "writable" in refusal_to_nobody(path, path.parent)


def test_a_server_that_is_not_there():
    message = refusal("postgresql://anna:secret@127.0.0.1:1/db", LogUnavailableError)
    assert "postgresql+psycopg://anna:***@127.0.0.1:1/db" in message
    assert "check host" in message


def test_a_wrong_password_and_a_wrong_database(postgresql):
    wrong = postgresql.url().replace("not-for-messages", "secret")
    assert "password" in refusal(wrong, LogUnavailableError)
    assert "database" in refusal(postgresql.url("nowhere"), LogUnavailableError)


def test_a_user_who_may_not_make_tables(postgresql, postgresql_url):
    postgresql.run("DROP SCHEMA IF EXISTS nescio CASCADE")
    postgresql.run("DROP ROLE IF EXISTS guest")
    postgresql.run("CREATE ROLE guest LOGIN PASSWORD 'secret'")
    guest = postgresql_url.replace("nescio:not-for-messages", "guest:secret")
    assert "GRANT CREATE" in refusal(guest)


def test_many_replicas_open_a_new_log_at_once(nowhere, entry):
    def work(name):
        with open_log(nowhere) as log:
            log.write([entry(id=name, replica=name)])

    fork = get_context("fork")
    replicas = [fork.Process(target=work, args=(name,)) for name in "abcdef"]
    for one in replicas:
        one.start()
    for one in replicas:
        one.join(60)
    assert [one.exitcode for one in replicas] == [0] * 6
    with open_log(nowhere, create=False) as log:
        assert sorted(one.id for one in log.decisions()) == list("abcdef")
