"""How many requests are accepted at a time, so that none waits long for its answer.

A queue with a fixed length bounds the wait only of guards that are fast. So the rate at which
requests are answered is measured whenever the service is busy, and as many are accepted as it
answers in half a second; others get 503 at once, before their bodies are read.
"""

from dataclasses import dataclass

WAIT = 0.5  # seconds that an accepted request should take at most
FEWEST = 16  # requests that are accepted in any case
BUSY = 8  # requests at a time from which on the rate of the answers is that of a busy service
NEWEST = 0.3  # weight of the last measurement


@dataclass
class Admission:
    """The limit of requests at a time.

    most: requests at a time, whatever the rate. wait: seconds that one should take at most.
    """

    most: int
    wait: float = WAIT
    rate: float | None = None  # answers per second while busy; None: not measured yet
    _time: float | None = None
    _answered: int = 0
    _waiting: int = 0

    def __post_init__(self) -> None:
        self.limit = self.most

    def measure(self, time: float, answered: int, waiting: int) -> None:
        """Look at the service, every fraction of a second.

        time: now, in seconds.
        answered: requests that were answered so far.
        waiting: requests that are not answered yet.
        """
        if self._time is not None and time > self._time and min(waiting, self._waiting) >= BUSY:
            now = (answered - self._answered) / (time - self._time)
            self.rate = now if self.rate is None else (1 - NEWEST) * self.rate + NEWEST * now
            self.limit = min(self.most, max(FEWEST, int(self.wait * self.rate)))
        self._time, self._answered, self._waiting = time, answered, waiting
