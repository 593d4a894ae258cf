"""What the decision log forgets: kept inputs after some days, decisions never or after more.

Age is measured by a clock of the log, not by that of the computer alone. The log's clock follows
the computer's, but a leap of it counts as one day at most, and the rest is caught up at double
speed. So a computer that wakes up in another year deletes one day too much, not everything, and
after a month without the service the deletions are on time again a month later. Nothing is deleted
that is not old by both clocks. A service has a `Retention`, which calls `retain` once an hour.

Deleting is the one thing that may be done to the log but adding to it. It goes in small
transactions, between which decisions are written, and is recorded as an action. In SQLite what is
deleted is overwritten, and its room is used again, or given back where it is a tenth of the file.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from nescio.core import NescioError
from nescio.serving.decision_log import DecisionLog
from nescio.serving.log_records import Action
from nescio.serving.log_schema import about, clearing, entries, inputs, labels, queue

EVERY = 3600.0  # seconds between two calls of a service
DAY = 86400.0
KEEP_INPUTS = 30.0  # days
INPUTS, DECISIONS = 100, 2000  # that one transaction deletes
BYTES = 4 << 20  # of inputs that it overwrites, while decisions wait to be written
SPARE = 0.1  # share of the file that may be free
PAGES = 1000  # that one transaction gives back


@dataclass(frozen=True, kw_only=True)
class Retained:
    """What was deleted.

    inputs: the number of inputs.
    decisions: the number of decisions, which took their inputs and labels along.
    labels: the number of labels.
    behind: days by which the log's clock is behind the computer's.
    """

    inputs: int
    decisions: int
    labels: int
    behind: float

    def __str__(self) -> str:
        """One sentence, or two."""
        text = (
            f"retention deleted {self.inputs} inputs, {self.decisions} decisions"
            f" and {self.labels} labels"
        )
        if self.behind < 1:
            return text
        return (
            f"{text}; the computer's clock is {self.behind:.0f} days ahead of the log's: if it is"
            " right, call retain(log, now=time.time()) once"
        )


def retain(
    log: DecisionLog,
    *,
    keep_inputs: float | None = KEEP_INPUTS,
    keep_decisions: float | None = None,
    now: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Retained:
    """Delete what is older than the settings say.

    log: the decision log.
    keep_inputs: days for which inputs are kept; None: as long as their decisions.
    keep_decisions: days for which decisions are kept, with their labels and inputs; None: forever.
      The numbers of `counts` stay.
    now: the time, in seconds since 1970, where you vouch for it; None: by both clocks.
    stop: asked between transactions whether to leave the rest for another time.
    """
    check_days(keep_inputs=keep_inputs, keep_decisions=keep_decisions)
    clock, behind = _clock(log, now)
    gone = {"inputs": 0, "decisions": 0, "labels": 0}
    limits = [clock - days * DAY for days in (keep_inputs, keep_decisions) if days is not None]
    if limits:  # inputs first: they are large, and go a few at a time
        gone["inputs"] = _delete_inputs(log, max(limits), stop)
    if keep_decisions is not None:
        gone |= _delete_decisions(log, clock - keep_decisions * DAY, stop)
    if any(gone.values()):
        settings = {"keep_inputs": keep_inputs, "keep_decisions": keep_decisions, "clock": clock}
        details = json.dumps({**gone, **settings})
        log.record(
            Action(
                time=time.time(), who="nescio", role="", what="retention", about="", details=details
            )
        )
        _give_back(log)
    return Retained(**gone, behind=behind / DAY)


class Retention:
    """Calls `retain` at once and then every hour, in a thread, until it is stopped."""

    def __init__(
        self,
        log: DecisionLog,
        *,
        keep_inputs: float | None = KEEP_INPUTS,
        keep_decisions: float | None = None,
        say: Callable[[str], None] = print,
        every: float = EVERY,
    ) -> None:
        """Start.

        log: the decision log.
        keep_inputs: days for which inputs are kept; None: as long as their decisions.
        keep_decisions: days for which decisions are kept; None: forever.
        say: gets a sentence when something was deleted, or could not be.
        every: seconds between two calls.
        """
        check_days(keep_inputs=keep_inputs, keep_decisions=keep_decisions)
        self._days = {"keep_inputs": keep_inputs, "keep_decisions": keep_decisions}
        self._log, self._say, self._every = log, say, every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, after the transaction that is under way."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                done = retain(self._log, **self._days, stop=self._stopped.is_set)
            except Exception as error:  # whatever it is, the next call tries again
                self._say(f"retention: {error}")
            else:
                if done.inputs or done.decisions or done.behind >= 1:
                    self._say(str(done))
            if self._stopped.wait(self._every):
                return


def check_days(**settings: float | None) -> None:
    """Refuse what is not a number of days.

    settings: days by the name of the setting; None: forever.
    """
    for name, days in settings.items():
        if days is not None and not (isfinite(days) and days >= 0):
            raise NescioError(f"{name} is a number of days, or None to keep all, got {days!r}")


def moved(clock: float, seen: float, now: float) -> float:
    """The clock of the log, moved towards the time of the computer.

    clock: of the log, at the last look.
    seen: the time of the computer then.
    now: the time of the computer.
    """
    most = min(DAY, 2 * max(now - seen, 0.0))
    return clock + min(max(now - clock, -most), most)


def _clock(log: DecisionLog, now: float | None) -> tuple[float, float]:
    """The time by which age is measured, and by how much the log's clock is behind."""
    computer = time.time() if now is None else now
    with log.database.writing() as connection:
        notes: dict[str, str] = {row.name: row.value for row in connection.execute(select(about))}
        made = float(notes["made"])
        clock, seen = float(notes.get("clock", made)), float(notes.get("seen", made))
        clock = moved(clock, seen, computer) if now is None else now
        for name, value in (("clock", clock), ("seen", computer)):
            connection.execute(delete(about).where(about.c.name == name))
            connection.execute(insert(about), [{"name": name, "value": repr(value)}])
    return min(clock, computer), max(computer - clock, 0.0)


def _delete_inputs(log: DecisionLog, before: float, stop: Callable[[], bool]) -> int:
    """Delete inputs, oldest first."""
    columns = select(inputs.c.seq, func.length(inputs.c.body).label("size"))
    old = columns.where(inputs.c.time < before).order_by(inputs.c.time).limit(INPUTS)
    total = 0
    while not stop() and (numbers := _few(log, old)):
        with log.database.writing() as connection:
            _open(connection, before)
            gone = connection.execute(delete(inputs).where(inputs.c.seq.in_(numbers)))
            _close(connection)
        total += gone.rowcount
    return total


def _delete_decisions(log: DecisionLog, before: float, stop: Callable[[], bool]) -> dict[str, int]:
    """Delete decisions, oldest first, with all that belongs to them."""
    old = select(entries.c.seq).where(entries.c.time < before).order_by(entries.c.time)
    total = {"decisions": 0, "labels": 0}
    while not stop() and (numbers := _some(log, old.limit(DECISIONS))):
        with log.database.writing() as connection:
            _open(connection, before)
            said = connection.execute(delete(labels).where(labels.c.entry.in_(numbers)))
            connection.execute(delete(inputs).where(inputs.c.seq.in_(numbers)))
            connection.execute(delete(queue).where(queue.c.seq.in_(numbers)))
            gone = connection.execute(delete(entries).where(entries.c.seq.in_(numbers)))
            _close(connection)
        total["decisions"] += gone.rowcount
        total["labels"] += said.rowcount
    return total


def _few(log: DecisionLog, query: Select[Any]) -> list[int]:
    """The first numbers, as many as one transaction should overwrite; one at least."""
    with log.database.reading() as connection:
        rows = connection.execute(query).all()
    sizes = accumulate(row.size for row in rows)
    few = [row.seq for row, size in zip(rows, sizes, strict=True) if size <= BYTES]
    return few or [row.seq for row in rows[:1]]


def _some(log: DecisionLog, query: Select[Any]) -> list[int]:
    with log.database.reading() as connection:
        return list(connection.execute(query).scalars())


def _open(connection: Connection, before: float) -> None:
    """Let the triggers of this transaction pass what belongs to decisions before a time."""
    connection.execute(insert(clearing), [{"older_than": before}])


def _close(connection: Connection) -> None:
    connection.execute(delete(clearing))


def _give_back(log: DecisionLog) -> None:
    """Make a file of SQLite smaller where much of it is free; PostgreSQL uses its room again."""
    if not log.database.is_sqlite:
        return
    before = None
    while True:
        with log.database.writing() as connection:
            cursor = connection.connection.cursor()
            free, every = (
                int(cursor.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("freelist_count", "page_count")
            )
            if free <= max(SPARE * every, PAGES) or free == before:
                return
            cursor.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()  # page by page
        before = free
