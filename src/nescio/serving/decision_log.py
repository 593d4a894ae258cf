"""The decision log: every decision of a service, written before the answer leaves.

It is append-only, in a file of SQLite or in PostgreSQL. A write is one transaction, which is on the
disk when `write` returns; after a crash the log holds all of it or nothing. The order is that of
`seq`, never that of the clock: within a replica, later decisions have larger numbers. Replicas that
share PostgreSQL may commit out of order, so who follows the log with `after` follows each replica;
labels and actions are committed in the order of their numbers.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, insert

from nescio.core import NescioError, quoted
from nescio.serving import log_reading as reading
from nescio.serving import log_schema as schema
from nescio.serving.log_database import Database
from nescio.serving.log_database import LogFullError as LogFullError
from nescio.serving.log_database import LogUnavailableError as LogUnavailableError
from nescio.serving.log_database import RepeatedDecisionError as RepeatedDecisionError
from nescio.serving.log_opening import open_database
from nescio.serving.log_reading import Wanted
from nescio.serving.log_records import Action as Action
from nescio.serving.log_records import Entry as Entry
from nescio.serving.log_records import KeptInput as KeptInput
from nescio.serving.log_records import Label as Label
from nescio.serving.log_records import Logged as Logged

FIELDS = """id time source digest decision label probability p_value score failure_score rule
in_range prediction_set more picked propensity""".split()  # noqa: SIM905
ADD = f"INSERT INTO entries ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})"
QUEUE = "INSERT INTO queue (seq, guard, reviews) SELECT seq, ?, 0 FROM entries WHERE id = ?"
KEEP = "INSERT INTO inputs (seq, time, kind, body) SELECT seq, time, ?, ? FROM entries WHERE id = ?"
TALLY = (
    "INSERT INTO tallies (source, decision, count) VALUES (?, ?, ?)"
    " ON CONFLICT (source, decision) DO UPDATE SET count = tallies.count + excluded.count"
)
SOURCE = (
    "INSERT INTO sources (guard, version, replica) VALUES (?, ?, ?)"
    " ON CONFLICT (guard, version, replica) DO NOTHING"
)
STATE = (
    "INSERT INTO states (name, seq, body) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, body = excluded.body"
)
FIRST = "INSERT INTO states (name, seq, body) VALUES (?, 0, ?) ON CONFLICT (name) DO NOTHING"
GUARD = (
    "INSERT INTO guards (name, version, time, about) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (name, version) DO UPDATE SET about = excluded.about"
)
LABEL = "INSERT INTO labels (entry, reviewer, kind, label, time) VALUES (?, ?, ?, ?, ?)"
REVIEWED = (  # of each reviewer the last label counts, and a skip takes it back
    "UPDATE queue SET reviews = (SELECT count(*) FROM labels AS own WHERE own.entry = queue.seq"
    " AND own.kind <> 'skip' AND NOT EXISTS (SELECT 1 FROM labels AS later WHERE later.entry ="
    " own.entry AND later.reviewer = own.reviewer AND later.seq > own.seq)) WHERE seq = ?"
)
KINDS, DECISIONS = ("label", "none", "skip"), ("answer", "unsure", "ood")


def open_log(where: str | Path, *, create: bool = True) -> "DecisionLog":
    """Open a decision log.

    where: a file, sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE.
    create: make a log where there is none.
    """
    return DecisionLog(open_database(where, create=create))


class DecisionLog:
    """The decisions of a service, and what was said about them; for all threads of a process."""

    def __init__(self, database: Database) -> None:
        """Use `open_log`.

        database: that holds the log.
        """
        self.database = database
        self._sources: dict[tuple[str, str, str], int] = {}
        self._connected = -1

    def __enter__(self) -> "DecisionLog":
        """The log; it is closed at the end of the block."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the log."""
        self.close()

    def __repr__(self) -> str:
        return f"DecisionLog({str(self.database.place)!r})"

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def write(self, entries: Sequence[Entry]) -> None:
        """Write decisions in one transaction; they are on the disk when this returns.

        An error means that none of them was written: `LogFullError` where there is no room,
        `LogUnavailableError` where the database does not answer (when the connection is lost during
        the commit, PostgreSQL may have written all of them), `RepeatedDecisionError` where an id
        is in the log already. The next call tries again, with a new connection where it must.

        entries: the decisions, in their order.
        """
        if not entries:
            return
        with self.database.writing() as connection:
            same = self._connected == self.database.connected
            known = dict(self._sources) if same else {}
            for key in {(one.guard, one.version, one.replica) for one in entries} - set(known):
                known[key] = self._source(connection, key)
            self._write(connection, entries, known)
            connected = self.database.connected
        self._sources, self._connected = known, connected  # not what was rolled back

    def _write(
        self,
        connection: Connection,
        entries: Sequence[Entry],
        known: Mapping[tuple[str, str, str], int],
    ) -> None:
        """The statements of one batch."""
        numbers = [known[one.guard, one.version, one.replica] for one in entries]
        rows = [_row(one, number) for one, number in zip(entries, numbers, strict=True)]
        self._run(connection, ADD, rows)
        queued = [(one.guard, one.id) for one in entries if one.picked]
        kept = [(one.kept.kind, one.kept.body, one.id) for one in entries if one.kept is not None]
        counts = Counter(
            (number, one.decision) for number, one in zip(numbers, entries, strict=True)
        )
        self._run(connection, QUEUE, queued)
        self._run(connection, KEEP, kept)
        self._run(connection, TALLY, [(*key, count) for key, count in sorted(counts.items())])

    def _run(self, connection: Connection, statement: str, rows: Sequence[Any]) -> None:
        """A statement for each row, in the driver: the fastest way."""
        if rows:
            marked = statement if self.database.is_sqlite else statement.replace("?", "%s")
            connection.exec_driver_sql(marked, list(rows))

    def _in_turn(self, connection: Connection) -> None:
        """Let replicas commit labels and actions in the order of their numbers.

        Who follows these with `after` would miss a number that is committed after a larger one.
        """
        if not self.database.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.TURN})")

    def _source(self, connection: Connection, key: tuple[str, str, str]) -> int:
        """The number of a guard, version and replica."""
        self._run(connection, SOURCE, [key])
        table = schema.sources
        names = ("guard", "version", "replica")
        is_it = (table.c[name] == value for name, value in zip(names, key, strict=True))
        return int(connection.execute(table.select().where(*is_it)).one().source)

    def decisions(
        self,
        *,
        guard: str | None = None,
        version: str | None = None,
        replica: str | None = None,
        after: int = 0,
        decision: str | None = None,
        picked: bool | None = None,
        since: float | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Logged]:
        """Decisions in the order of their numbers, read chunk by chunk; without their inputs.

        guard: only of the guard of this name.
        version: only of this version.
        replica: only those that this replica wrote.
        after: only those with a larger number.
        decision: only answer, unsure or ood.
        picked: only those that are, or are not, in the review queue.
        since: only from this time on, in seconds since 1970.
        newest_first: the largest number first.
        limit: at most this number.
        """
        if decision not in (None, *DECISIONS):
            raise NescioError(f"decision is one of {', '.join(DECISIONS)}, got {quoted(decision)}")
        if limit is not None and limit < 0:
            raise NescioError(f"limit is a number of decisions, or None for all, got {limit!r}")
        wanted = Wanted(
            guard=guard,
            version=version,
            replica=replica,
            decision=decision,
            picked=picked,
            since=since,
        )
        return reading.read_decisions(
            self.database, wanted, after=after, newest_first=newest_first, limit=limit
        )

    def decision(self, id: str) -> Logged | None:
        """The decision of this `id`, or None."""
        return reading.read_decision(self.database, id)

    def kept(self, id: str) -> KeptInput | None:
        """The input of the decision of this `id`, or None where it was not kept."""
        return reading.read_kept(self.database, id)

    def counts(
        self,
        *,
        guard: str | None = None,
        version: str | None = None,
        replica: str | None = None,
        since: float | None = None,
    ) -> dict[str, int]:
        """The number of decisions of each kind: answer, unsure and ood.

        guard: only of the guard of this name.
        version: only of this version.
        replica: only those that this replica wrote.
        since: only from this time on, in seconds since 1970, among those that are still in the
          log; without it, all that were ever written.
        """
        wanted = Wanted(guard=guard, version=version, replica=replica, since=since)
        return reading.read_counts(self.database, wanted)

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Add what reviewers say; a later label of the same reviewer replaces the one before.

        labels: of decisions that are in the log.
        """
        for one in labels:
            if one.kind not in KINDS or (one.kind == "label") != (one.label is not None):
                raise NescioError(
                    f"a label is of kind {', '.join(KINDS)}, with a text for 'label' alone,"
                    f" got {one.kind!r} with {one.label!r}"
                )
        if not labels:
            return
        with self.database.writing() as connection:
            self._in_turn(connection)
            known = reading.numbers_of(connection, {one.decision for one in labels})
            for one in labels:
                if one.decision not in known:
                    raise NescioError(f"{quoted(one.decision)} is not in the log: no decision")
            rows = [
                (known[one.decision], one.reviewer, one.kind, one.label, one.time) for one in labels
            ]
            self._run(connection, LABEL, rows)
            self._run(connection, REVIEWED, [(number,) for number in sorted(known.values())])

    def labels(self, *, decision: str | None = None, after: int = 0) -> Iterator[tuple[int, Label]]:
        """Labels with their numbers, in the order in which they were given.

        decision: only of the decision of this id.
        after: only those with a larger number.
        """
        return reading.read_labels(self.database, decision=decision, after=after)

    def open_items(
        self,
        *,
        guard: str | None = None,
        reviewer: str | None = None,
        reviews: int = 1,
        limit: int = 50,
    ) -> list[Logged]:
        """Decisions in the review queue that need a label, oldest first.

        guard: only of the guard of this name.
        reviewer: not those that this reviewer has labeled or skipped.
        reviews: the number of reviewers who should label each; a skip does not count.
        limit: at most this number.
        """
        if reviews < 1 or limit < 0:
            raise NescioError(f"reviews is 1 or more, limit 0 or more, got {reviews!r}, {limit!r}")
        return reading.read_open(
            self.database, guard=guard, reviewer=reviewer, reviews=reviews, limit=limit
        )

    def record(self, action: Action) -> None:
        """Write an `action` down."""
        with self.database.writing() as connection:
            self._in_turn(connection)
            connection.execute(insert(schema.actions), [vars(action)])

    def actions(self, after: int = 0) -> Iterator[tuple[int, Action]]:
        """Actions with their numbers, in their order.

        after: only those with a larger number.
        """
        return reading.read_actions(self.database, after=after)

    def save_state(self, name: str, seq: int, body: bytes) -> None:
        """Save the state of a monitor, in place of the one before.

        name: of the monitor.
        seq: the number of the last decision that is in it.
        body: the state.
        """
        with self.database.writing() as connection:
            self._run(connection, STATE, [(name, seq, body)])

    def first_state(self, name: str, body: bytes) -> bytes:
        """The state of a name that never changes: the first that any process saves is kept.

        name: of the state.
        body: the state, where there is none.
        """
        found = self.state(name)
        if found is None:
            with self.database.writing() as connection:
                self._run(connection, FIRST, [(name, body)])
            found = self.state(name)
        return body if found is None else found[1]

    def state(self, name: str) -> tuple[int, bytes] | None:
        """The state of this `name` with the number of its last decision, or None."""
        return reading.read_states(self.database, name, whole=True).get(name)

    def states(self, prefix: str) -> dict[str, tuple[int, bytes]]:
        """The states whose names begin with `prefix`."""
        return reading.read_states(self.database, prefix, whole=False)

    def register(self, name: str, version: str, about: Mapping[str, Any]) -> None:
        """Note a guard that is served.

        name: under which it is served.
        version: the fingerprint of its file.
        about: what else to know of it; JSON.
        """
        row = (name, version, time.time(), json.dumps(dict(about), sort_keys=True))
        with self.database.writing() as connection:
            self._run(connection, GUARD, [row])

    def guards(self) -> list[dict[str, Any]]:
        """The guards that were served: name, version, the time of the first, and what is known."""
        return reading.read_guards(self.database)


def _row(one: Entry, source: int) -> tuple[Any, ...]:
    """The columns of an entry, in the order of FIELDS."""
    return (
        one.id,
        one.time,
        source,
        one.digest,
        one.decision,
        one.label,
        _finite(one.probability),
        _finite(one.p_value),
        _finite(one.score),
        _finite(one.failure_score),
        one.rule,
        bool(one.in_range),
        one.set,
        one.more,
        bool(one.picked),
        one.propensity,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
