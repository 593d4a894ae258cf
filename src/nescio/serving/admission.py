"""How many rows are accepted at a time, so that no request waits long for its answer.

A queue of a fixed length bounds the wait only of guards that are fast. So the rate at which rows
are decided is measured whenever the service is busy, and as many are accepted as it decides in half
a second; requests above that get 503, before their bodies are read.
"""

from dataclasses import dataclass

WAIT = 0.5  # seconds that an accepted request should wait at most
FEWEST = 16  # rows that are accepted in any case
BUSY = 8  # rows at a time from which on the rate of the decisions is that of a busy service
WINDOW = 0.5  # seconds of a measurement, at least
NEWEST = 0.5  # weight of the last measurement


@dataclass(kw_only=True)
class Admission:
    """The limit of rows that wait at a time.

    most: rows, whatever the rate. wait: seconds that a request should wait at most. rate: rows per
    second while busy; None: not measured yet.
    """

    most: int
    wait: float = WAIT
    rate: float | None = None
    _start: tuple[float, int] | None = None  # of the measurement: time and rows decided before it

    def __post_init__(self) -> None:
        self.limit = self.most

    def measure(self, time: float, decided: int, waiting: int) -> None:
        """Look at the service, every fraction of a second.

        time: now, in seconds.
        decided: rows that were decided so far.
        waiting: rows that wait or are decided now.
        """
        if waiting < BUSY:
            self._start = None
        elif self._start is None:
            self._start = (time, decided)
        else:
            took, rows = time - self._start[0], decided - self._start[1]
            if took >= WINDOW and rows:
                now = rows / took
                self.rate = now if self.rate is None else (1 - NEWEST) * self.rate + NEWEST * now
                self.limit = min(self.most, max(FEWEST, int(self.wait * self.rate)))
                self._start = (time, decided)
