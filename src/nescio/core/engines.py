"""Where independent pieces of work run: processes of this machine, or the workers of Ray.

Each worker has one thread of torch, so that a piece of work gives the same bits wherever it runs.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from nescio.core.errors import NescioError

LOCAL, RAY = "local", "ray"
NAMES = (LOCAL, RAY)
T = TypeVar("T")
R = TypeVar("R")


class WorkerPool(Protocol):
    """Workers that are at hand."""

    workers: int

    def submit(self, task: Any) -> Any:
        """A ticket for what becomes of a task."""

    def first(self, tickets: list[Any]) -> Any:
        """The first of the tickets whose task is finished; it waits for that."""

    def result(self, ticket: Any) -> Any:
        """What became of a task; its error is raised."""


@dataclass(frozen=True)
class Engine:
    """Where independent pieces of work run; what becomes of them does not depend on it.

    workers: how many pieces are worked on at a time; None: as many as there are processors.
    """

    workers: int | None = None
    name = LOCAL

    def pool(
        self, work: Callable[[Any], Any], most: int | None
    ) -> AbstractContextManager[WorkerPool]:
        """Workers for `work`; most: not more of them."""
        raise NotImplementedError

    @property
    def is_remote(self) -> bool:
        """Whether it is more than this machine's processes."""
        return self.name != LOCAL

    def size(self) -> int:
        """How many pieces of work it does at a time."""
        return self.workers or processors()

    def check(self) -> None:
        """Refuse an engine that cannot be reached, before there is work for it."""

    def close(self) -> None:
        """Give back what the engine has started."""

    def as_finished(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """What `work` makes of each task, as it is finished."""
        if not tasks:
            return
        with self.pool(work, len(tasks)) as pool:
            tickets = [pool.submit(task) for task in tasks]
            while tickets:
                done = pool.first(tickets)
                tickets.remove(done)
                yield pool.result(done)

    def in_order(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """What `work` makes of each task, in their order; few are under way or wait at a time."""
        with self.pool(work, None) as pool:
            under_way: deque[Any] = deque()
            for task in tasks:
                under_way.append(pool.submit(task))
                if len(under_way) >= 2 * pool.workers:
                    yield pool.result(under_way.popleft())
            while under_way:
                yield pool.result(under_way.popleft())


@dataclass(frozen=True)
class LocalEngine(Engine):
    """Processes of this machine; with one worker, this process.

    workers: the number of processes; None: as many as there are processors.
    """

    @contextmanager
    def pool(self, work: Callable[[Any], Any], most: int | None) -> Iterator[WorkerPool]:
        """Processes for `work`; most: not more of them."""
        count = self.size() if most is None else min(self.size(), most)
        if count == 1:
            yield _Here(work)
            return
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(count, context, _begin)
        try:
            yield _Processes(work, executor, count)
        finally:
            executor.shutdown(cancel_futures=True)


@dataclass
class _Here:
    """This process, which works when it is asked for a result."""

    work: Callable[[Any], Any]
    workers: int = 1

    def submit(self, task: Any) -> Any:
        return [task]  # no two tickets are the same, whatever the tasks

    def first(self, tickets: list[Any]) -> Any:
        return tickets[0]

    def result(self, ticket: Any) -> Any:
        return self.work(ticket[0])


@dataclass
class _Processes:
    """Worker processes."""

    work: Callable[[Any], Any]
    executor: ProcessPoolExecutor
    workers: int

    def submit(self, task: Any) -> Future[Any]:
        return self.executor.submit(self.work, task)

    def first(self, tickets: list[Any]) -> Future[Any]:
        done, _ = wait(tickets, return_when=FIRST_COMPLETED)
        return next(one for one in tickets if one in done)

    def result(self, ticket: Future[Any]) -> Any:
        try:
            return ticket.result()
        except BrokenProcessPool as error:
            raise NescioError(
                "a worker process died; the same call goes on. In a script, make the call under "
                "`if __name__ == '__main__':`, or with one worker"
            ) from error


def _begin() -> None:
    """Set up a worker: one thread, Ctrl-C is the parent's, and no life after the parent's."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def engine(name: str = LOCAL, *, address: str | None = None, workers: int | None = None) -> Engine:
    """Where independent pieces of work run: processes of this machine, or the workers of Ray.

    name: "local", or "ray".
    address: of a Ray cluster, such as "10.0.0.1:6379" or "ray://10.0.0.1:10001"; None: the variable
      RAY_ADDRESS, and without it a cluster of this machine, which ends with the process.
    workers: how many pieces are worked on at a time; None: as many as there are processors.
    """
    if name not in NAMES:
        raise NescioError(f"an engine is one of {', '.join(NAMES)}, got {name!r}")
    if workers is not None and workers < 1:
        raise NescioError(f"workers must be at least 1, got {workers}")
    if name == LOCAL:
        if address is not None:
            raise NescioError("an address is that of a Ray cluster; choose the engine ray")
        return LocalEngine(workers)
    from nescio.core.ray_engine import RayEngine

    return RayEngine(workers, address=address)
