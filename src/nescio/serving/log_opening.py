"""Open a decision log: make the tables of a new one, and check those of an old one."""

import os
import time
from pathlib import Path

from sqlalchemy import Connection, inspect, select

from nescio.core import DamagedError, NescioError, NewerError
from nescio.serving import log_schema as schema
from nescio.serving.log_database import Database, address
from nescio.version import VERSION


def open_database(where: str | Path, *, create: bool) -> Database:
    """The database at a place, with the tables of a log.

    where: a path, or a URL.
    create: make a log where there is none.
    """
    place = address(where)
    if place.path is not None:
        _check_path(place.path, create)
    database = Database(place)
    try:
        _prepare(database, create)
    except BaseException:
        database.close()
        raise
    return database


def _check_path(path: Path, create: bool) -> None:
    """Make a new file that only its owner reads: it may hold inputs of users."""
    try:
        if path.is_dir():
            raise NescioError(f"{path} is a folder; name a file, as in {path / 'decisions.db'}")
        if path.exists():
            return
        if not create:
            raise NescioError(f"{path}: there is no decision log; nescio serve writes one")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise NescioError(
            f"{path}: cannot open the decision log ({error.strerror}); choose another place"
        ) from None


def _prepare(database: Database, create: bool) -> None:
    """Check the version of a log, or make one."""
    with database.reading() as connection:
        version = _version(connection, database)
    if version is None and not create:
        raise NescioError(f"{database.place}: there is no decision log; nescio serve writes one")
    if version is not None and version > schema.SCHEMA:
        raise NewerError(
            f"{database.place}: a decision log of a later nescio (tables {version}, this one knows"
            f" {schema.SCHEMA}); update nescio, which is {VERSION}"
        )
    database.use_wal()
    if version is None:
        with database.writing() as connection:
            _lock(connection, database)
            if _version(connection, database) is None:  # nobody was faster
                _make(connection)


def _version(connection: Connection, database: Database) -> int | None:
    """The version of the tables; None where there are none."""
    there = set(inspect(connection).get_table_names(None if database.is_sqlite else schema.SPACE))
    if schema.about.name in there:
        row = connection.execute(
            select(schema.about.c.value).where(schema.about.c.name == "schema")
        ).scalar()
        if row is not None and row.isdigit():
            return int(row)
    elif not there:
        return None
    raise DamagedError(
        f"{database.place}: a database, but not a decision log of nescio; name another one"
    )


def _lock(connection: Connection, database: Database) -> None:
    """One process makes the tables of PostgreSQL, in a schema; SQLite has its lock already."""
    if not database.is_sqlite:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema.SPACE}")


def _make(connection: Connection) -> None:
    """Make the tables, and note the version and when they were made."""
    schema.make_tables(connection)
    notes = {"schema": str(schema.SCHEMA), "nescio": VERSION, "made": repr(time.time())}
    rows = [{"name": name, "value": value} for name, value in notes.items()]
    connection.execute(schema.about.insert(), rows)
