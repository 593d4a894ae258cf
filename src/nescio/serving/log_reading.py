"""Read the decision log: in chunks, each of which is a short transaction that uses an index."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, exists, func, select

from nescio.serving.log_database import Database
from nescio.serving.log_records import Action, KeptInput, Label, Logged
from nescio.serving.log_schema import (
    abstained,
    actions,
    entries,
    guards,
    inputs,
    labels,
    queue,
    sources,
    states,
    tallies,
)

CHUNK = 2000  # rows of a transaction
BEYOND = 2**62  # a number that no decision has
APART = 50  # sources up to which each is read by its index
COLUMNS = (
    *(column for column in entries.c if column.name != "source"),
    *(sources.c[name] for name in ("guard", "version", "replica")),
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which decisions are asked for; None: all.

    guard: the name of a guard.
    version: of it.
    replica: that wrote them.
    decision: answer, unsure or ood.
    picked: whether they are in the review queue.
    since: seconds since 1970.
    """

    guard: str | None = None
    version: str | None = None
    replica: str | None = None
    decision: str | None = None
    picked: bool | None = None
    since: float | None = None


def source_numbers(database: Database, wanted: Wanted) -> list[int] | None:
    """The sources that are asked for; None: all."""
    given = {name: getattr(wanted, name) for name in ("guard", "version", "replica")}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return None
    query = select(sources.c.source).where(*(sources.c[n] == v for n, v in given.items()))
    with database.reading() as connection:
        return list(connection.execute(query).scalars())


def decision_query(wanted: Wanted, some: list[int] | None, *, newest_first: bool) -> Select[Any]:
    """Decisions in the order of their numbers; `some`: the sources that are asked for.

    The decisions of one source, those without an answer, and those in the review queue have an
    index each; the others are read in their order. `+ 0` keeps the databases from another choice.
    """
    query = select(*COLUMNS).join(sources, sources.c.source == entries.c.source)
    number = entries.c.seq
    if wanted.picked:
        number = queue.c.seq
        query = query.join(queue, queue.c.seq == entries.c.seq)
    elif wanted.picked is not None:
        query = query.where(~entries.c.picked)
    if some is not None:
        one = len(some) == 1 and not wanted.picked
        query = query.where(
            entries.c.source == some[0] if one else (entries.c.source + 0).in_(some)
        )
    if wanted.decision is not None:
        query = query.where(entries.c.decision == wanted.decision)
        if wanted.decision != "answer":
            query = query.where(abstained)
    if wanted.since is not None:
        query = query.where(entries.c.time + 0 >= wanted.since)
    return query.order_by(number.desc() if newest_first else number)


def read_decisions(
    database: Database, wanted: Wanted, *, after: int, newest_first: bool, limit: int | None
) -> Iterator[Logged]:
    """Decisions, chunk by chunk."""
    some = source_numbers(database, wanted)
    if wanted.since is not None:
        after = max(after, _before(database, wanted.since))
    parts = [some]
    if some is not None and not wanted.picked and len(some) <= APART:
        parts = [[one] for one in some]
    found = merge(
        *(_chunks(database, wanted, part, after, newest_first, limit) for part in parts),
        key=lambda logged: logged.seq,
        reverse=newest_first,
    )
    return islice(found, limit)


def first_since(since: float) -> Select[Any]:
    """The smallest number of a decision from a time on; + 0: by the index of times."""
    return select(func.min(entries.c.seq + 0)).where(entries.c.time >= since)


def _before(database: Database, since: float) -> int:
    """The number before that of the first decision since a time."""
    with database.reading() as connection:
        first = connection.execute(first_since(since)).scalar()
    return int(first) - 1 if first is not None else BEYOND


def _chunks(
    database: Database,
    wanted: Wanted,
    some: list[int] | None,
    after: int,
    newest_first: bool,
    limit: int | None,
) -> Iterator[Logged]:
    """Decisions of some sources; each chunk begins where the last one ended."""
    query = decision_query(wanted, some, newest_first=newest_first)
    number = queue.c.seq if wanted.picked else entries.c.seq
    low, high, left = after, BEYOND, limit
    while left is None or left > 0:
        size = CHUNK if left is None else min(CHUNK, left)
        bounds = (number > low, number < high) if newest_first else (number > low,)
        with database.reading() as connection:
            rows = connection.execute(query.where(*bounds).limit(size)).all()
        yield from map(as_logged, rows)
        if len(rows) < size:
            return
        left = None if left is None else left - size
        low, high = (low, rows[-1].seq) if newest_first else (rows[-1].seq, high)


def as_logged(row: Row[Any]) -> Logged:
    """A decision of the columns of a row."""
    values = dict(row._mapping)
    return Logged(set=values.pop("prediction_set"), **values)


def read_decision(database: Database, id: str) -> Logged | None:
    """One decision."""
    query = decision_query(Wanted(), None, newest_first=False).where(entries.c.id == id)
    with database.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else as_logged(row)


def numbers_of(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """The numbers of decisions by their ids, for those that are in the log."""
    wanted = sorted(ids)
    found: dict[str, int] = {}
    for start in range(0, len(wanted), CHUNK):
        some = entries.c.id.in_(wanted[start : start + CHUNK])
        rows = connection.execute(select(entries.c.id, entries.c.seq).where(some))
        found |= {row.id: int(row.seq) for row in rows}
    return found


def read_kept(database: Database, id: str) -> KeptInput | None:
    """The input of a decision, where it is kept."""
    query = select(inputs.c.kind, inputs.c.body).join(entries, entries.c.seq == inputs.c.seq)
    with database.reading() as connection:
        row = connection.execute(query.where(entries.c.id == id)).first()
    return None if row is None else KeptInput(row.kind, bytes(row.body))


def open_query(*, reviews: int, guard: str | None, reviewer: str | None, limit: int) -> Select[Any]:
    """Numbers of decisions in the queue that exactly `reviews` reviewers have labeled."""
    query = select(queue.c.seq).where(queue.c.reviews == reviews)
    if guard is not None:
        query = query.where(queue.c.guard == guard)
    if reviewer is not None:
        own = (labels.c.entry == queue.c.seq, labels.c.reviewer == reviewer)
        query = query.where(~exists().where(*own))
    return query.order_by(queue.c.seq).limit(limit)


def read_open(
    database: Database, *, guard: str | None, reviewer: str | None, reviews: int, limit: int
) -> list[Logged]:
    """Decisions that need a label, oldest first."""
    found: list[int] = []
    with database.reading() as connection:
        for number in range(reviews):
            query = open_query(reviews=number, guard=guard, reviewer=reviewer, limit=limit)
            found += connection.execute(query).scalars()
        oldest, query = sorted(found)[:limit], decision_query(Wanted(), None, newest_first=False)
        rows: list[Row[Any]] = []
        for start in range(0, len(oldest), CHUNK):
            some = entries.c.seq.in_(oldest[start : start + CHUNK])
            rows += connection.execute(query.where(some)).all()
    return [as_logged(row) for row in rows]


def read_labels(
    database: Database, *, decision: str | None, after: int
) -> Iterator[tuple[int, Label]]:
    """Labels in the order in which they were given."""
    columns = (labels.c[name] for name in ("seq", "reviewer", "kind", "label", "time"))
    query = select(entries.c.id.label("decision"), *columns)
    query = query.join(entries, entries.c.seq == labels.c.entry)
    if decision is not None:
        query = query.where(entries.c.id == decision)
    for row in _numbered(database, query, labels.c.seq, after):
        yield row.pop("seq"), Label(**row)


def read_actions(database: Database, *, after: int) -> Iterator[tuple[int, Action]]:
    """Actions in their order."""
    for row in _numbered(database, select(actions), actions.c.seq, after):
        yield row.pop("seq"), Action(**row)


def _numbered(
    database: Database, query: Select[Any], number: ColumnElement[int], after: int
) -> Iterator[dict[str, Any]]:
    """Rows by their number, chunk by chunk."""
    while True:
        with database.reading() as connection:
            rows = connection.execute(query.where(number > after).order_by(number).limit(CHUNK))
            chunk = [dict(row) for row in rows.mappings()]
        after = chunk[-1]["seq"] if chunk else after
        done = len(chunk) < CHUNK
        yield from chunk
        if done:
            return


def read_states(database: Database, prefix: str, *, whole: bool) -> dict[str, tuple[int, bytes]]:
    """States by name; `whole`: the name, not the beginning of names."""
    name = states.c.name
    is_wanted = name == prefix if whole else func.substr(name, 1, len(prefix)) == prefix
    with database.reading() as connection:
        rows = connection.execute(select(states).where(is_wanted).order_by(name)).all()
    return {row.name: (row.seq, bytes(row.body)) for row in rows}


def read_guards(database: Database) -> list[dict[str, Any]]:
    """Guards that were served, in the order in which they came."""
    with database.reading() as connection:
        rows = connection.execute(select(guards).order_by(guards.c.seq)).all()
    return [
        {**json.loads(row.about), "name": row.name, "version": row.version, "time": row.time}
        for row in rows
    ]


def read_counts(database: Database, wanted: Wanted) -> dict[str, int]:
    """Decisions of each kind; without a time they are counted already."""
    if wanted.since is None:
        query = select(tallies.c.decision, func.sum(tallies.c.count))
        query = query.join(sources, sources.c.source == tallies.c.source)
        table = tallies
    else:
        query = select(entries.c.decision, func.count())
        query = query.join(sources, sources.c.source == entries.c.source)
        query = query.where(entries.c.time >= wanted.since)
        table = entries
    for name in ("guard", "version", "replica"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(sources.c[name] == value)
    with database.reading() as connection:
        rows = connection.execute(query.group_by(table.c.decision)).all()
    known = dict.fromkeys(("answer", "unsure", "ood"), 0)
    return {**known, **{kind: int(count) for kind, count in rows}}
