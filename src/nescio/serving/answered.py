"""What one request is told, cut out of the batch in which it was decided."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.serving.batching import QueuedRequest
from nescio.serving.decision_bytes import arrow_stream, entry_columns, json_rows
from nescio.serving.log_records import Entry
from nescio.serving.served_guards import Version


class AnsweredRequest:
    """The decisions about the rows of one request.

    id: of the request. version: the guard that decided. texts: JSON of each decision. columns: of
    the whole batch, by name. start: the first row of this request in there.
    """

    __slots__ = ("_columns", "id", "start", "texts", "version")

    def __init__(
        self,
        id: str,
        version: Version,
        texts: Sequence[bytes],
        columns: Mapping[str, NDArray[Any]],
        start: int,
    ) -> None:
        self.id, self.version, self.texts = id, version, texts
        self._columns, self.start = columns, start

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of this request, by name."""
        rows = slice(self.start, self.start + len(self.texts))
        return {name: column[rows] for name, column in self._columns.items()}

    @property
    def ids(self) -> list[str]:
        """The id of each decision, as the log has it."""
        return [f"{self.id}-{row}" for row in range(len(self.texts))]

    def json(self) -> bytes:
        """The answer as JSON."""
        start = f'{{"id":"{self.id}-'.encode()
        rows = [b'%s%d",%s' % (start, row, text[1:]) for row, text in enumerate(self.texts)]
        own = f'{{"id":"{self.id}","guard":"{self.version.name}",'
        head = f'{own}"version":"{self.version.version}","decisions":['
        return b"%s%s]}" % (head.encode(), b",".join(rows))

    def arrow(self) -> bytes:
        """The answer as a stream of Arrow, one row per decision."""
        about = {"id": self.id, "guard": self.version.name, "version": self.version.version}
        return arrow_stream({"id": self.ids, **self.columns}, about)


class Once:
    """Decisions whose columns are made once.

    decisions: of a batch.
    """

    def __init__(self, decisions: Any) -> None:
        self._columns = decisions.columns()
        self._count = len(decisions)

    def __len__(self) -> int:
        return self._count

    def columns(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, one row per input."""
        found: dict[str, NDArray[Any]] = self._columns
        return found


def answer_jobs(
    jobs: Sequence[QueuedRequest],
    found: Any,
    *,
    picked: NDArray[np.bool_],
    propensity: NDArray[np.float64],
    time: float,
    replica: str,
    keep: bool,
    keep_all: bool,
) -> list[Entry]:
    """Set the answers of jobs that were decided together, and give their entries of the log.

    jobs: of one version. found: the decisions about all their rows. picked: which of them go to
    review. propensity: the probability with which each was. time: in seconds since 1970. replica:
    that writes them. keep: whether the inputs of what goes to review are kept. keep_all: all others
    as well.
    """
    version: Version = jobs[0].version
    texts, columns = json_rows(found), found.columns()
    same: dict[str, Any] = {
        "time": time,
        "replica": replica,
        "guard": version.name,
        "version": version.version,
    }
    parts = entry_columns(found)
    names = (*parts, "propensity", "picked")
    rows = zip(*parts.values(), propensity.tolist(), picked.tolist(), strict=True)
    entries: list[Entry] = []
    start = 0
    for job in jobs:
        stop = start + job.count
        job.answer = AnsweredRequest(job.id, version, texts[start:stop], columns, start)
        start = stop
        for row, digest in enumerate(job.rows.digests):
            values = next(rows)
            kept = job.rows.kept(row) if keep_all or (keep and values[-1]) else None
            own: dict[str, Any] = dict(zip(names, values, strict=True))
            entries.append(Entry(id=f"{job.id}-{row}", digest=digest, kept=kept, **same, **own))
    return entries
