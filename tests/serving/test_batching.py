"""The queue by itself: what is decided together, in which order, and how it ends."""

import asyncio
import threading
from typing import Any

import pytest

from nescio.serving.batching import Batcher, QueuedRequest, RefusedError
from nescio.serving.service_metrics import ServiceMetrics

OPTIONS: dict[str, Any] = {"batch_ms": 0, "max_batch": 4, "queue": 100, "timeout": 10}


class Recorder:
    """Decides and writes, and remembers what came together."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.batches: list[list[str]] = []
        self.groups: list[list[str]] = []
        self.wrong: Exception | None = None

    def decide(self, version: Any, jobs: Any) -> list[str]:
        self.go.wait(10)
        self.batches.append([job.id for job in jobs])
        assert {job.version for job in jobs} == {version}
        for job in jobs:
            job.answer = f"answer of {job.id}"
        return [job.id for job in jobs for _ in range(job.count)]

    def commit(self, entries: Any, groups: Any) -> None:
        if self.wrong is not None:
            raise self.wrong
        self.groups.append(list(entries))


def run(jobs: list[tuple[str, str, int]], **options: Any) -> tuple[Recorder, dict[str, Any]]:
    """Queue jobs (id, version, rows) while the first is decided; what came out."""
    recorder, told = Recorder(), {}

    async def work() -> None:
        batcher = Batcher(
            recorder.decide, recorder.commit, ServiceMetrics(), **{**OPTIONS, **options}
        )
        batcher.start(asyncio.get_running_loop())
        versions = {version: object() for _, version, _ in jobs}
        for id, version, rows in jobs:
            done = lambda answer, id=id: told.update({id: answer})  # noqa: E731
            batcher.submit(QueuedRequest(versions[version], range(rows), id, done))
            if len(told) == 0 and id == jobs[0][0]:
                await asyncio.sleep(0.05)  # it is taken
        recorder.go.set()
        while len(told) < len(jobs):
            await asyncio.sleep(0.001)
        assert batcher.rows == 0
        await asyncio.get_running_loop().run_in_executor(None, batcher.close)

    asyncio.run(work())
    return recorder, told


def test_what_waits_is_decided_together_by_version():
    jobs = [
        ("0", "a", 1),
        ("1", "a", 1),
        ("2", "b", 1),
        ("3", "a", 2),
        ("4", "b", 1),
        ("5", "a", 3),
    ]
    recorder, told = run(jobs)
    assert recorder.batches == [["0"], ["1", "3"], ["2", "4"], ["5"]]
    assert told == {id: f"answer of {id}" for id, _, _ in jobs}
    assert sum(map(len, recorder.groups)) == 9


def test_a_large_request_is_a_batch_of_its_own():
    recorder, _ = run([("0", "a", 1), ("1", "a", 9), ("2", "a", 1)])
    assert recorder.batches == [["0"], ["1"], ["2"]]


def test_errors_of_the_log_reach_every_request():
    async def work() -> None:
        recorder, told = Recorder(), []
        recorder.wrong = RuntimeError("no disk")
        recorder.go.set()
        batcher = Batcher(recorder.decide, recorder.commit, ServiceMetrics(), **OPTIONS)
        batcher.start(asyncio.get_running_loop())
        for at in range(3):
            batcher.submit(QueuedRequest("a", range(1), str(at), told.append))
        while len(told) < 3:
            await asyncio.sleep(0.001)
        assert all(one is recorder.wrong for one in told)
        await asyncio.get_running_loop().run_in_executor(None, batcher.close)

    asyncio.run(work())


def test_closing_decides_what_is_queued():
    async def work() -> None:
        recorder, told = Recorder(), []
        batcher = Batcher(recorder.decide, recorder.commit, ServiceMetrics(), **OPTIONS)
        batcher.start(asyncio.get_running_loop())
        for at in range(7):
            batcher.submit(QueuedRequest("a", range(1), str(at), told.append))
        recorder.go.set()
        await asyncio.get_running_loop().run_in_executor(None, batcher.close)
        await asyncio.sleep(0)
        assert len(told) == 7

    asyncio.run(work())


def test_the_queue_counts_rows():
    async def work() -> None:
        recorder, told = Recorder(), []
        options = {**OPTIONS, "queue": 5}
        batcher = Batcher(recorder.decide, recorder.commit, ServiceMetrics(), **options)
        batcher.start(asyncio.get_running_loop())
        batcher.submit(QueuedRequest("a", range(3), "0", told.append))
        with pytest.raises(RefusedError) as caught:
            batcher.submit(QueuedRequest("a", range(3), "1", told.append))
        assert (caught.value.status, caught.value.retry) == (503, 1)
        batcher.submit(QueuedRequest("a", range(2), "2", told.append))
        recorder.go.set()
        await asyncio.get_running_loop().run_in_executor(None, batcher.close)

    asyncio.run(work())


def test_an_answer_that_cannot_be_given_costs_no_other():
    async def work() -> None:
        recorder, told = Recorder(), []
        batcher = Batcher(recorder.decide, recorder.commit, ServiceMetrics(), **OPTIONS)
        batcher.start(asyncio.get_running_loop())

        def broken(_: Any) -> None:
            raise ValueError("the connection is in an odd state")

        version = object()
        for at, done in enumerate((broken, told.append, broken, told.append)):
            batcher.submit(QueuedRequest(version, range(1), str(at), done))
        recorder.go.set()
        while batcher.rows:
            await asyncio.sleep(0.001)
        assert told == ["answer of 1", "answer of 3"]
        await asyncio.get_running_loop().run_in_executor(None, batcher.close)

    asyncio.run(work())
