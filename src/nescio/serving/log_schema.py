"""The tables of a decision log, the same in SQLite and PostgreSQL.

Entries, inputs, labels and actions are append-only: triggers refuse changes and deletions. There
is one way around, which `retention` takes: within a transaction the table `clearing` holds a time,
and what belongs to decisions before that time may be deleted.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA = 1  # version of the tables
SPACE = "nescio"  # the schema in PostgreSQL
LOCK = 0x6E657363  # of PostgreSQL, while tables are made
TURN = LOCK + 1  # while a label or an action is written
NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # INTEGER PRIMARY KEY is the row's number

tables = MetaData()


def _text(name: str, **options: Any) -> Column[Any]:
    return Column(name, Text, **{"nullable": False, **options})


def _time() -> Column[Any]:
    return Column("time", Double, nullable=False)


def _seq() -> Column[Any]:
    """Numbers that grow, and are never used again."""
    return Column("seq", NUMBER, Identity(always=True), primary_key=True)


def _of_entry() -> Column[Any]:
    return Column("seq", NUMBER, ForeignKey("entries.seq"), primary_key=True, autoincrement=False)


about = Table("about_log", tables, _text("name", primary_key=True), _text("value"))

sources = Table(  # who decided: few rows, to which the entries point
    "sources",
    tables,
    Column("source", NUMBER, Identity(always=True), primary_key=True),
    *map(_text, ("guard", "version", "replica")),
    UniqueConstraint("guard", "version", "replica"),
)

entries = Table(
    "entries",
    tables,
    _seq(),
    _text("id", unique=True),
    _time(),
    Column("source", NUMBER, ForeignKey("sources.source"), nullable=False),
    *map(_text, ("digest", "decision", "label")),
    *(Column(name, Double) for name in ("probability", "p_value", "score", "failure_score")),
    _text("rule"),
    Column("in_range", Boolean, nullable=False),
    *(_text(name, nullable=True) for name in ("prediction_set", "more")),
    Column("picked", Boolean, nullable=False),
    Column("propensity", Double, nullable=False),
    CheckConstraint("decision IN ('answer', 'unsure', 'ood')", name="known_decision"),
    CheckConstraint("time BETWEEN -1e11 AND 1e11", name="finite_time"),
    CheckConstraint("propensity BETWEEN 0 AND 1", name="propensity_is_a_probability"),
    sqlite_autoincrement=True,
)
Index("entries_source", entries.c.source, entries.c.seq)
Index("entries_time", entries.c.time, entries.c.seq)
abstained = entries.c.decision != text("'answer'")
ONLY: dict[str, Any] = {"sqlite_where": abstained, "postgresql_where": abstained}
Index("entries_abstained", entries.c.decision, entries.c.seq, **ONLY)
Index("entries_abstained_of", entries.c.source, entries.c.decision, entries.c.seq, **ONLY)

inputs = Table(
    "inputs",
    tables,
    _of_entry(),
    _time(),
    _text("kind"),
    Column("body", LargeBinary, nullable=False),
)
Index("inputs_time", inputs.c.time)

tallies = Table(  # entries of each kind, counted as they are written
    "tallies",
    tables,
    Column("source", NUMBER, ForeignKey("sources.source"), primary_key=True, autoincrement=False),
    _text("decision", primary_key=True),
    Column("count", BigInteger, nullable=False),
)

queue = Table(  # the entries that were picked, with the number of reviewers who labeled them
    "queue",
    tables,
    _of_entry(),
    _text("guard"),
    Column("reviews", Integer, nullable=False),
)
Index("queue_open", queue.c.reviews, queue.c.seq)
Index("queue_open_of_guard", queue.c.guard, queue.c.reviews, queue.c.seq)

labels = Table(
    "labels",
    tables,
    _seq(),
    Column("entry", NUMBER, ForeignKey("entries.seq"), nullable=False),
    _text("reviewer"),
    _text("kind"),
    _text("label", nullable=True),
    _time(),
    sqlite_autoincrement=True,
)
Index("labels_of", labels.c.entry, labels.c.reviewer, labels.c.seq)

actions = Table(
    "actions",
    tables,
    _seq(),
    _time(),
    *map(_text, ("who", "role", "what", "about", "details")),
    sqlite_autoincrement=True,
)

states = Table(
    "states",
    tables,
    _text("name", primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

guards = Table(
    "guards",
    tables,
    _seq(),
    _text("name"),
    _text("version"),
    _time(),
    _text("about"),
    UniqueConstraint("name", "version"),
    sqlite_autoincrement=True,
)

clearing = Table("clearing", tables, Column("older_than", Double, nullable=False))

VIEW = """
CREATE VIEW decisions AS
SELECT seq, id, time, replica, guard, version, digest, decision, label, probability, p_value,
       score, failure_score, rule, in_range, prediction_set, more, picked, propensity
FROM entries JOIN sources ON sources.source = entries.source
"""

MAY_GO = {  # when a row may be deleted, in a trigger
    "entries": "EXISTS (SELECT 1 FROM clearing WHERE OLD.time < older_than)",
    "inputs": "EXISTS (SELECT 1 FROM clearing WHERE OLD.time < older_than)",
    "labels": "EXISTS (SELECT 1 FROM clearing, entries"
    " WHERE entries.seq = OLD.entry AND entries.time < older_than)",
    "actions": "1 = 0",
}
REFUSED = "the decision log is append-only: rows of {table} are neither changed nor deleted"


def make_tables(connection: Connection) -> None:
    """Make the tables of a new log, within a transaction of the caller."""
    tables.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(VIEW)
    for table, may_go in MAY_GO.items():
        for statement in _triggers(connection.dialect.name, table, may_go):
            connection.exec_driver_sql(statement)


def _same(table: str) -> str:
    """What `INSERT OR REPLACE` of SQLite would delete, without asking the other triggers."""
    return "seq = NEW.seq OR id = NEW.id" if table == "entries" else "seq = NEW.seq"


def _triggers(database: str, table: str, may_go: str) -> list[str]:
    """Statements after which a table is append-only."""
    refused = REFUSED.format(table=table)
    if database == "sqlite":
        stop = f"BEGIN SELECT RAISE(ABORT, '{refused}'); END"
        return [
            f"CREATE TRIGGER {table}_unchanged BEFORE UPDATE ON {table} {stop}",
            f"CREATE TRIGGER {table}_kept BEFORE DELETE ON {table} WHEN NOT {may_go} {stop}",
            f"CREATE TRIGGER {table}_not_replaced BEFORE INSERT ON {table}"
            f" WHEN EXISTS (SELECT 1 FROM {table} WHERE {_same(table)}) {stop}",
        ]
    body = f"BEGIN RAISE EXCEPTION '{refused}' USING ERRCODE = 'raise_exception'; END"
    kept = f"BEGIN IF {may_go} THEN RETURN OLD; END IF; {body.removeprefix('BEGIN ')}"
    head = f"RETURNS trigger LANGUAGE plpgsql SET search_path = {SPACE}"
    function = f"CREATE FUNCTION {{}}() {head} AS $${{}}$$"
    run = "CREATE TRIGGER {0} BEFORE {1} ON {2} FOR EACH {3} EXECUTE FUNCTION {4}()"
    return [
        function.format(f"{table}_unchanged", body),
        function.format(f"{table}_kept", kept),
        run.format(f"{table}_unchanged", "UPDATE", table, "ROW", f"{table}_unchanged"),
        run.format(f"{table}_not_emptied", "TRUNCATE", table, "STATEMENT", f"{table}_unchanged"),
        run.format(f"{table}_kept", "DELETE", table, "ROW", f"{table}_kept"),
    ]
