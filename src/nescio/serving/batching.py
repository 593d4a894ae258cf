"""Requests of many clients, decided together and written together.

Three threads take part. The event loop collects requests; where the inference thread is idle it is
woken at once, or after a few milliseconds where the last batch says that others will come. The
inference thread decides a batch and hands it to the writer thread, which writes all batches that
are there in one transaction. So the next batch is decided while the last is written, and an answer
leaves only after its decisions are in the log.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from nescio.core import NescioError, one_thread
from nescio.serving.admission import Admission
from nescio.serving.service_metrics import ServiceMetrics

lines = logging.getLogger("nescio.serving")
QUEUED, TAKEN, OVER = "queued", "taken", "over"  # where a request is


class RefusedError(NescioError):
    """A request that gets no decisions.

    message: why. status: of HTTP. reason: one word for the metrics. retry: seconds after which to
    try again; None: the same request would be refused again.
    """

    def __init__(self, message: str, *, status: int, reason: str, retry: int | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry = status, reason, retry


class QueuedRequest:
    """A request that waits for its decisions.

    version: the guard that decides. rows: the inputs. id: of the request. done: is called on the
    loop, once, with the answer or with the error that takes its place.
    """

    __slots__ = ("answer", "began", "count", "done", "id", "rows", "stage", "told", "version")

    def __init__(self, version: Any, rows: Any, id: str, done: Callable[[Any], None]) -> None:
        self.version, self.rows, self.id, self.done = version, rows, id, done
        self.count = len(rows)
        self.began = time.monotonic()
        self.stage = QUEUED
        self.answer: Any = None  # or an error
        self.told = False

    def tell(self, answer: Any) -> None:
        """Give the `answer`, or an error, unless one was given before."""
        if not self.told:
            self.told = True
            try:
                self.done(answer)
            except Exception as error:  # the other requests must get their answers
                more = {"error": type(error).__name__}
                lines.error("an answer was not given", extra={"more": more})


@dataclass(frozen=True)
class DecidedBatch:
    """A batch that was decided, but is not written yet."""

    jobs: Sequence[QueuedRequest]
    entries: Sequence[Any]


Decide = Callable[
    [Any, Sequence[QueuedRequest]], Sequence[Any]
]  # sets the answers, gives the entries
Commit = Callable[[Sequence[Any], Sequence[DecidedBatch]], None]  # all entries, and their batches


class Batcher:
    """The queue, the inference thread and the writer thread.

    decide: sets the answers of jobs of one version, and gives the entries of the log.
    commit: writes entries of some batches, and returns when they are safe.
    metrics: what is counted.
    batch_ms: how long a request waits for others, in milliseconds, at most.
    max_batch: rows that are decided together, at most.
    queue: rows that wait or are decided, at most.
    timeout: seconds until a request is refused.
    """

    def __init__(
        self,
        decide: Decide,
        commit: Commit,
        metrics: ServiceMetrics,
        *,
        batch_ms: float,
        max_batch: int,
        queue: int,
        timeout: float,
    ) -> None:
        self.decide, self.commit, self.metrics = decide, commit, metrics
        self.wait, self.max_batch, self.queue = batch_ms / 1000, max_batch, queue
        self.timeout = timeout
        self.rows = 0  # that wait, are decided or are written; only the loop changes it
        self.admission = Admission(most=queue)
        self._decided = 0  # rows so far
        self._lock = Lock()
        self._waiting: dict[int, deque[QueuedRequest]] = {}  # by the version
        self._queued = 0  # rows in there
        self._idle = False  # whether the inference thread waits for the bell
        self._expected = 1  # rows of the last batch
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._done: SimpleQueue[DecidedBatch | None] = SimpleQueue()
        self._timer: asyncio.Handle | None = None
        self._soon = False  # whether the timer rings in the next turn of the loop
        self._unanswered: deque[QueuedRequest] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.Handle | None = None
        self._threads: list[Thread] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; answers are given on `loop`."""
        self._loop = loop
        for work in (self._infer, self._write):
            thread = Thread(target=work, name=f"nescio{work.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._sweep()

    @property
    def full(self) -> bool:
        """Whether another request would wait too long behind the rows that wait."""
        return self.rows >= self.admission.limit

    def submit(self, job: QueuedRequest) -> None:
        """Queue `job`, on the loop; it is told the answer, or an error."""
        if self.rows and self.rows + job.count > self.queue:
            raise RefusedError(
                f"the queue is full: {self.rows} rows wait, at most {self.queue} may; try again in "
                "a second",
                status=503,
                reason="queue",
                retry=1,
            )
        self.rows += job.count
        self._unanswered.append(job)
        with self._lock:
            self._waiting.setdefault(id(job.version), deque()).append(job)
            self._queued += job.count
            idle, enough = self._idle, self._queued >= min(self._expected, self.max_batch)
        if idle and not self._soon:
            self._plan(soon=enough)

    def close(self) -> None:
        """Decide and write what is queued, then end the threads; answers are given on the loop."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._bell.put(False)
        for thread in self._threads:
            thread.join()

    def _plan(self, *, soon: bool) -> None:
        """Wake the inference thread in the next turn of the loop, or when it has waited."""
        assert self._loop is not None
        if soon or not self.wait:
            if self._timer is not None:
                self._timer.cancel()
            self._soon = True
            self._timer = self._loop.call_soon(self._ring)
        elif self._timer is None:
            self._timer = self._loop.call_later(self.wait, self._ring)

    def _ring(self) -> None:
        self._timer, self._soon = None, False
        with self._lock:
            idle, self._idle = self._idle, False
        if idle:
            self._bell.put(True)

    def _take(self) -> list[QueuedRequest]:
        """The next batch: the oldest request, and others of its version."""
        with self._lock:
            while self._waiting:
                key = min(self._waiting, key=lambda one: self._waiting[one][0].began)
                line, rows = self._waiting[key], 0
                jobs: list[QueuedRequest] = []
                while line and (not jobs or rows + line[0].count <= self.max_batch):
                    job = line.popleft()
                    self._queued -= job.count
                    if job.stage == QUEUED:
                        job.stage = TAKEN
                        jobs.append(job)
                        rows += job.count
                if not line:
                    del self._waiting[key]
                if jobs:
                    self._expected = rows
                    return jobs
            self._idle = True
            return []

    def _infer(self) -> None:
        """The inference thread."""
        with one_thread():
            going = True
            while going or self._waiting:
                if jobs := self._take():
                    self._infer_batch(jobs)
                elif going:
                    going = self._bell.get()
        self._done.put(None)

    def _infer_batch(self, jobs: list[QueuedRequest]) -> None:
        """Decide a batch; where that fails, each request by itself, so that others get answers."""
        began = time.perf_counter()
        try:
            entries = self.decide(jobs[0].version, jobs)
        except Exception as error:  # whatever it is, the thread goes on
            if len(jobs) > 1:
                for job in jobs:
                    self._infer_batch([job])
                return
            jobs[0].answer, entries = error, ()
        self.metrics.deciding.add(time.perf_counter() - began)
        self.metrics.batch_rows.add(sum(job.count for job in jobs))
        self._done.put(DecidedBatch(jobs, entries))

    def _write(self) -> None:
        """The writer thread."""
        going = True
        while going:
            groups: list[DecidedBatch] = []
            one = self._done.get()
            while True:
                if one is None:
                    going = False
                    break
                groups.append(one)
                try:
                    one = self._done.get_nowait()
                except Empty:
                    break
            if groups:
                self._write_groups(groups)

    def _write_groups(self, groups: list[DecidedBatch]) -> None:
        """Write some batches in one transaction, then let their answers leave."""
        assert self._loop is not None
        entries = [entry for group in groups for entry in group.entries]
        jobs = [job for group in groups for job in group.jobs]
        if entries:
            began = time.perf_counter()
            try:
                self.commit(entries, groups)
            except Exception as error:  # whatever it is, the thread goes on
                for job in jobs:
                    if not isinstance(job.answer, Exception):
                        job.answer = error
            self.metrics.writing.add(time.perf_counter() - began)
        self._loop.call_soon_threadsafe(self._finish, jobs)

    def _finish(self, jobs: list[QueuedRequest]) -> None:
        """Give the answers, on the loop."""
        for job in jobs:
            self.rows -= job.count
            self._decided += job.count
            job.stage = OVER
        self.admission.measure(time.monotonic(), self._decided, self.rows)
        for job in jobs:
            job.tell(job.answer)

    def _sweep(self) -> None:
        """Refuse requests that have waited too long; they are in the order of their times."""
        assert self._loop is not None
        line, oldest = self._unanswered, time.monotonic() - self.timeout
        while line and (line[0].stage == OVER or line[0].began < oldest):
            self._late(line.popleft())
        pause = min(max(self.timeout / 20, 0.02), 0.5)
        self._sweeper = self._loop.call_later(pause, self._sweep)

    def _late(self, job: QueuedRequest) -> None:
        with self._lock:
            stage = job.stage
            if stage == QUEUED:
                job.stage = OVER
        if stage == QUEUED:
            self.rows -= job.count
        if job.told:
            return
        what = "in the queue" if stage == QUEUED else "for the decision and the log"
        job.tell(
            RefusedError(
                f"waited {self.timeout:g} s {what}; try again, with fewer requests at a time",
                status=503 if stage == QUEUED else 504,
                reason="timeout",
                retry=1 if stage == QUEUED else None,
            )
        )
