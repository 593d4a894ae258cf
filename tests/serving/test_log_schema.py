"""The tables: the database itself refuses changes, and every query uses an index."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from nescio.serving import Action, KeptInput, Label, open_log
from nescio.serving import log_reading as reading
from nescio.serving.log_reading import Wanted
from nescio.serving.log_schema import MAY_GO, entries, queue


@pytest.fixture
def filled(log, entry):
    fill(log, entry)
    return log


def fill(log, entry):
    """A row in each table that is append-only."""
    log.write([entry(1, decision="ood", picked=True, kept=KeptInput("npy", b"x"))])
    log.add_labels([Label(decision=entry(1).id, reviewer="a", kind="label", label="b", time=1.0)])
    log.record(Action(time=1.0, who="a", role="admin", what="swap", about="", details="{}"))


def content(log):
    with log.database.reading() as connection:
        return [connection.execute(text(f"SELECT * FROM {table}")).all() for table in MAY_GO]


@pytest.mark.parametrize("table", MAY_GO)
@pytest.mark.parametrize("statement", ["UPDATE {} SET time = 0", "DELETE FROM {}"])
def test_what_is_in_the_log_stays(filled, table, statement):
    before = content(filled)
    assert all(before)
    with (
        pytest.raises(DBAPIError, match="append-only"),
        filled.database.engine.begin() as connection,
    ):
        connection.exec_driver_sql(statement.format(table))
    assert content(filled) == before


@pytest.mark.parametrize("table", MAY_GO)
def test_postgresql_does_not_empty_tables(postgresql_url, table):
    with (
        open_log(postgresql_url) as log,
        pytest.raises(DBAPIError, match="append-only"),
        log.database.engine.begin() as connection,
    ):
        connection.exec_driver_sql(f"TRUNCATE {table} CASCADE")


@pytest.mark.parametrize("table", MAY_GO)
def test_replacing_is_refused_too(tmp_path, entry, table):
    """Which SQLite does without the triggers for updates and deletions."""
    path = tmp_path / "decisions.db"
    with open_log(path) as log:
        fill(log, entry)
        before = content(log)
        with closing(sqlite3.connect(path)) as plain:  # without our settings
            for statement in (
                f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
                f"UPDATE OR REPLACE {table} SET time = 0",
            ):
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    plain.execute(statement)
        assert content(log) == before


def test_a_decision_is_not_replaced_by_its_id(tmp_path, entry):
    path = tmp_path / "decisions.db"
    with open_log(path) as log:
        log.write([entry(1)])
        names = [column.name for column in entries.c if column.name != "seq"]
        columns = ", ".join(names)
        with (
            closing(sqlite3.connect(path)) as plain,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            plain.execute(
                f"INSERT OR REPLACE INTO entries ({columns}) SELECT {columns} FROM entries"
            )
        assert log.counts()["answer"] == 1


def test_the_way_around_is_for_what_is_old(filled, entry):
    """A younger decision stays, even while there is a row in the table clearing."""
    filled.write([entry(2, time=50.0)])
    with filled.database.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO clearing (older_than) VALUES (100)")
        connection.exec_driver_sql("DELETE FROM entries WHERE time = 50")
        connection.exec_driver_sql("DELETE FROM clearing")
    for table in ("entries", "labels", "inputs", "actions"):
        with filled.database.engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO clearing (older_than) VALUES (100)")
            with pytest.raises(DBAPIError, match="append-only"):
                connection.exec_driver_sql(f"DELETE FROM {table}")
    assert [one.id for one in filled.decisions()] == [entry(1).id]


def test_the_view_has_all_columns_of_a_decision(filled):
    with filled.database.reading() as connection:
        (row,) = connection.execute(text("SELECT * FROM decisions")).mappings()
    (one,) = filled.decisions()
    same = {**row, "set": row["prediction_set"], "kept": None}
    del same["prediction_set"]
    assert {name: getattr(one, name) for name in same} == same


QUERIES = {
    "all": (Wanted(), None, "PRIMARY KEY"),
    "of a guard": (Wanted(), [1], "entries_source"),
    "abstained": (Wanted(decision="ood"), None, "entries_abstained"),
    "abstained of a guard": (Wanted(decision="unsure"), [1], "entries_abstained_of"),
    "abstained of many": (Wanted(decision="unsure"), [1, 2], "entries_abstained"),
    "of many": (Wanted(), [1, 2], "PRIMARY KEY"),
    "picked": (Wanted(picked=True), None, "PRIMARY KEY"),
    "picked of a guard": (Wanted(picked=True), [1, 2], "PRIMARY KEY"),
    "since": (Wanted(since=5.0), None, "PRIMARY KEY"),
}


def plan(log, query):
    """How the database finds the rows of a query."""
    compiled = query.compile(log.database.engine, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN QUERY PLAN " if log.database.is_sqlite else "EXPLAIN "
    with log.database.reading() as connection:
        if not log.database.is_sqlite:  # of a table this small, it would read all
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            connection.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
            connection.exec_driver_sql("SET LOCAL enable_sort = off")
        rows = connection.exec_driver_sql(f"{explain}{compiled}".replace("%%", "%")).all()
    return "\n".join(str(row[-1]) for row in rows)


def check(log, found, index):
    if log.database.is_sqlite:
        assert "SCAN" not in found.replace("SCAN sources", "")
        assert "B-TREE" not in found  # which would sort all
        assert index in found
    else:
        assert "Seq Scan on entries" not in found
        assert "Sort" not in found


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("newest_first", [False, True])
def test_queries_use_an_index(filled, name, newest_first):
    wanted, several, index = QUERIES[name]
    query = reading.decision_query(wanted, several, newest_first=newest_first)
    number = queue.c.seq if wanted.picked else entries.c.seq
    check(filled, plan(filled, query.where(number > 5, number < 10**9).limit(50)), index)


@pytest.mark.parametrize("guard", [None, "digits"])
@pytest.mark.parametrize("reviewer", [None, "anna"])
def test_open_items_use_an_index(filled, guard, reviewer):
    query = reading.open_query(reviews=0, guard=guard, reviewer=reviewer, limit=50)
    check(filled, plan(filled, query), "queue_open")


def test_the_time_and_the_id_have_an_index(filled):
    first = reading.first_since(5.0)
    check(filled, plan(filled, first), "entries_time")
    one = reading.decision_query(Wanted(), None, newest_first=False).where(entries.c.id == "x")
    assert "SCAN" not in plan(filled, one)
