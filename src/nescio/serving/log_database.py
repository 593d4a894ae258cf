"""The database of a decision log: where it is, how it is opened, and what its errors mean."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from nescio.core import DamagedError, NescioError
from nescio.serving.log_checkpoints import LARGEST, Checkpoints
from nescio.serving.log_schema import SPACE

BUSY = 5.0  # seconds that a writer waits for another one
SILENT = 10_000  # milliseconds without an answer of PostgreSQL, after which the connection is lost
ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}  # seconds, times
LONGEST = 30_000  # milliseconds of a statement, where the user of the database has no other limit
FORMS = "a file, sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE"
FULL = "53100"  # disk_full of PostgreSQL
NOT_NOW = ("08", "53", "55P03", "57")  # connection, resources, lock, shutdown
REPEATED = ("23505", *(f"SQLITE_CONSTRAINT_{n}" for n in ("UNIQUE", "PRIMARYKEY", "TRIGGER")))


class LogUnavailableError(NescioError):
    """The log cannot be reached now; nothing was written, and the next call tries again."""


class LogFullError(LogUnavailableError):
    """There is not enough room for the log; nothing was written."""


class RepeatedDecisionError(NescioError):
    """A decision that is in the log already; nothing was written."""


@dataclass(frozen=True)
class Address:
    """Where a log is.

    url: of the database.
    path: of the file; None for PostgreSQL.
    """

    url: URL
    path: Path | None

    def __str__(self) -> str:
        """The file, or the URL without its password and options."""
        if self.path is not None:
            return str(self.path)
        return self.url.set(query={}).render_as_string(hide_password=True)


def address(where: str | Path) -> Address:
    """The address of a log: a path, or a URL of SQLite or PostgreSQL."""
    if isinstance(where, Path) or "://" not in where:
        if not str(where) or "\0" in str(where):
            raise NescioError(f"a decision log is {FORMS}")
        path = Path(where)
        return Address(URL.create("sqlite+pysqlite", database=str(path)), path)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):  # the text is not repeated: it may hold a password
        raise NescioError(f"the URL of the decision log cannot be read; write {FORMS}") from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise NescioError("a decision log in SQLite is a file: write sqlite:///decisions.db")
        return address(Path(url.database))
    if kind in ("postgresql", "postgres"):
        return Address(url.set(drivername="postgresql+psycopg"), None)
    raise NescioError(f"a decision log is {FORMS}, not a database of {kind!r}")


def make_engine(place: Address) -> Engine:
    """Connections to the database, each with the settings that a log needs."""
    if place.path is None:
        options = {"connect_timeout": 5, "tcp_user_timeout": SILENT, "application_name": "nescio"}
        options |= ALIVE  # for a host that is gone while a statement waits for its answer
        given = {name: value for name, value in options.items() if name not in place.url.query}
        engine = create_engine(place.url, connect_args=given, pool_pre_ping=True)
        event.listen(engine, "connect", _set_up_postgresql)
        return engine
    engine = create_engine(place.url, connect_args={"timeout": BUSY, "check_same_thread": False})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    """Settings of one connection; transactions are begun by `_begin`."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # what retention deletes is overwritten
    connection.execute(f"PRAGMA wal_autocheckpoint = {LARGEST}")
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _begin(connection: Connection) -> None:
    """A transaction that writes takes the lock at once: it cannot fail for it half-way."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_postgresql(connection: Any, _record: object) -> None:
    """Settings of one connection: the schema of the log, and commits that are on the disk."""
    connection.execute(f"SET search_path TO {SPACE}")
    connection.execute(f"SET lock_timeout TO {int(1000 * BUSY)}")
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.execute(
        f"SELECT set_config('statement_timeout', '{LONGEST}', false)"
        " WHERE current_setting('statement_timeout') = '0'"
    )
    connection.commit()


@contextmanager
def clear_errors(place: Address) -> Iterator[None]:
    """Turn errors of the database into those of nescio, which never show a password."""
    try:
        yield
    except IntegrityError as error:
        raise _integrity(place, error) from None
    except DBAPIError as error:
        lost = isinstance(error, OperationalError | InterfaceError)
        raise _meaning(place, error.orig, lost=lost) from None
    except PoolTimeoutError:
        raise LogUnavailableError(f"{place}: all connections to the log are in use") from None
    except (UnicodeEncodeError, SQLAlchemyError) as error:
        raise NescioError(f"{place}: the log cannot take this: {type(error).__name__}") from None


def _integrity(place: Address, error: IntegrityError) -> NescioError:
    """A decision that is there already, a label of one that is not, or a value that is missing."""
    orig: Any = error.orig
    code = getattr(orig, "sqlstate", None) or getattr(orig, "sqlite_errorname", "")
    if code in REPEATED:
        return RepeatedDecisionError(f"{place}: one of these decisions is in the log already")
    if code in ("23503", "SQLITE_CONSTRAINT_FOREIGNKEY"):
        return NescioError(f"{place}: a label is of a decision that is not in the log")
    return NescioError(f"{place}: {_first_line(orig)}")


def _meaning(place: Address, error: Any, *, lost: bool) -> NescioError:
    """What an error of the driver means, and what to do; `lost`: maybe the connection."""
    if isinstance(error, sqlite3.Error):
        return _sqlite_meaning(place, error)
    state, text = getattr(error, "sqlstate", None) or "", _first_line(error)
    if state == FULL:
        return LogFullError(f"{place}: the disk of the database is full; make room")
    if (lost and not state) or state.startswith(NOT_NOW):  # without one it is the driver's
        return LogUnavailableError(
            f"{place}: cannot reach the database ({text}); check host, user, password and database"
        )
    if state.startswith("42501"):
        return NescioError(
            f"{place}: {text}; let the user of the log make its tables:"
            " GRANT CREATE ON DATABASE ... TO ..."
        )
    return NescioError(f"{place}: {text}")


def _sqlite_meaning(place: Address, error: sqlite3.Error) -> NescioError:
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF  # the primary code
    if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
        return LogFullError(f"{place}: the disk is full, or the file may not grow; make room")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogUnavailableError(
            f"{place}: another program has had the log locked for {BUSY:g} s; end it, or wait"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return DamagedError(f"{place}: damaged, or not a decision log; name another file")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return LogUnavailableError(
            f"{place}: cannot be written; the file and its folder must be writable for this user"
        )
    if code == sqlite3.SQLITE_IOERR:
        return LogUnavailableError(f"{place}: {error}; check the disk")
    return NescioError(f"{place}: {error}")


def _first_line(error: object) -> str:
    """What a driver says, in one line; the drivers do not repeat passwords."""
    return str(error).strip().split("\n")[0]


def file_identity(path: Path) -> tuple[int, int] | None:
    """The identity of the file at a path; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Database:
    """Transactions of one log, for all threads of this process."""

    def __init__(self, place: Address) -> None:
        """Connect to nothing yet.

        place: where the log is.
        """
        self.place, self.engine = place, make_engine(place)
        self.connected = 0  # times; what is remembered of the database may be wrong after one
        event.listen(self.engine, "connect", self._count)
        self._lock = threading.Lock()
        self._checkpoints = None if place.path is None else Checkpoints(place.path)
        self._file = None if place.path is None else file_identity(place.path)

    @property
    def is_sqlite(self) -> bool:
        """Whether the log is a file."""
        return self.place.path is not None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads."""
        with clear_errors(self.place):
            self._check_file()
            with self.engine.connect() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, one at a time; committed at the end."""
        with self._lock, clear_errors(self.place):
            self._check_file()
            open_one = self.engine.connect().execution_options(writes=True)
            with open_one as connection, connection.begin():
                yield connection
        if self._checkpoints is not None:
            self._checkpoints.wrote()

    def use_wal(self) -> None:
        """Set what a file of SQLite remembers; it is not touched before it is known for a log."""
        if self.place.path is None:
            return
        with clear_errors(self.place), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            connection.rollback()
            try:
                driver.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a file without tables
                (mode,) = driver.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.Error as error:
                raise _sqlite_meaning(self.place, error) from None
        if mode != "wal":
            raise NescioError(
                f"{self.place}: SQLite cannot write ahead on this file system; use a local disk"
            )

    def close(self) -> None:
        """Close all connections."""
        if self._checkpoints is not None:
            self._checkpoints.close()
        self.engine.dispose()

    def _count(self, _connection: object, _record: object) -> None:
        self.connected += 1

    def _check_file(self) -> None:
        """A file that was removed would take what is written, and lose it."""
        if self.place.path is None or (found := file_identity(self.place.path)) == self._file:
            return
        self.engine.dispose()
        if found is None:
            raise LogUnavailableError(f"{self.place}: the file is gone; put it back")
        self._file = found
