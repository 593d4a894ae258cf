"""The service itself: guards, log, keys, limits, and the way of a request through them.

It knows nothing of HTTP but status codes: `front.py` reads requests to predict, `app.py` all
others.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, quiet
from nescio.serving.answered import AnsweredRequest, Once, answer_jobs
from nescio.serving.batching import Batcher, DecidedBatch, QueuedRequest, RefusedError
from nescio.serving.bodies import Rows, joined_rows, read_body
from nescio.serving.body_limits import BodyError, BodyLimits
from nescio.serving.decision_log import Action, DecisionLog, LogFullError, LogUnavailableError
from nescio.serving.file_states import file_state
from nescio.serving.keys import LOCAL, Keys, Who
from nescio.serving.other_sites import refuse_other_sites
from nescio.serving.retention import Retention
from nescio.serving.served_guards import ServedGuards, UnknownGuardError, Version
from nescio.serving.service_gauges import add_gauges
from nescio.serving.service_metrics import ServiceMetrics
from nescio.serving.service_settings import ServiceSettings
from nescio.serving.tracing_marks import tracing

LARGE = 1 << 17  # bytes of a body that is read on a thread of its own
TOO_MANY = "too many requests wait; try again in a second"
ALL_BODIES = 16  # times the largest body: what all that are there may take together
T = TypeVar("T")
lines = logging.getLogger("nescio.serving")


class Service:
    """Guards behind a queue, with a log.

    guards: by name.
    log: the decision log; None: decisions are not written down.
    keys: who may ask; None: everybody on this machine.
    settings: limits and times.
    keys_path: the file of the keys, which is read again on a signal, and watched with those of the
      guards; None: it is not.
    """

    def __init__(
        self,
        guards: ServedGuards,
        log: DecisionLog | None,
        *,
        keys: Keys | None = None,
        settings: ServiceSettings | None = None,
        keys_path: Path | None = None,
    ) -> None:
        self.guards, self.log, self.keys = guards, log, keys
        self.settings = settings or ServiceSettings()
        self.keys_path = keys_path
        self._keys_seen = None if keys is None else keys.seen
        own = self.settings
        self.limits = BodyLimits(body_bytes=own.body_bytes, rows=own.rows, pixels=own.pixels)
        self.metrics = ServiceMetrics()
        self.batcher = Batcher(
            self._decide,
            self._commit,
            self.metrics,
            batch_ms=own.batch_ms,
            max_batch=own.max_batch,
            queue=own.queue,
            timeout=own.timeout,
        )
        self.running = self.draining = False
        self.quick = not tracing()  # whether predictions may go past the application
        self.body_bytes = 0  # of all requests that are there
        self.connections = 0
        self._start = f"{int(time.time() * 1000):011x}{secrets.token_hex(3)}"
        self._numbers = itertools.count(1)
        self._draws = np.random.default_rng()
        self._pool: ThreadPoolExecutor | None = None
        self._watching: asyncio.Task[None] | None = None
        self._retention: Retention | None = None
        add_gauges(self)

    async def start(self) -> None:
        """Start the threads, on the running loop."""
        loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="nescio_bodies")
        for name in self.guards.names():
            await loop.run_in_executor(None, self._register, self.guards.current(name))
        self.batcher.start(loop)
        if self.settings.watch_files is not None:
            self._watching = loop.create_task(self._watch_files(self.settings.watch_files))
        if self.log is not None:
            self._retention = Retention(
                self.log,
                keep_inputs=self.settings.input_days,
                keep_decisions=self.settings.decision_days,
                say=partial(self.say, "info"),
            )
        self.running = True

    async def stop(self) -> None:
        """Decide and write what was accepted, then end the threads and close the log."""
        self.draining = True
        if self._watching is not None:
            self._watching.cancel()
        self.running = False
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.batcher.close)
        await asyncio.sleep(0)  # the last answers
        for name in self.guards.names():
            for version in self.guards.served(name).versions:
                await loop.run_in_executor(None, self.end_watch, version)
        if self._pool is not None:
            self._pool.shutdown()
        if self._retention is not None:
            await loop.run_in_executor(None, self._retention.stop)
        if self.log is not None:
            self.log.close()

    @property
    def reviews(self) -> int:
        """The number of reviewers who must agree on a label."""
        return self.settings.reviews

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self.running and not self.draining

    @property
    def full(self) -> bool:
        """Whether a request to predict would wait too long."""
        return self.batcher.full

    def authorized(self, headers: Mapping[str, str], role: str) -> Who:
        """Who asks, if they may do what `role` may.

        headers: of the request, with names in lower case.
        """
        if self.keys is None:
            refuse_other_sites(headers)
            return LOCAL
        sent = headers.get("authorization") or headers.get("x-api-key")
        who = None if sent is None else self.keys.who(sent)
        if who is None:
            said = "no key was sent" if sent is None else "this key is not known"
            raise RefusedError(
                f"{said}; send one: Authorization: Bearer KEY", status=401, reason="key"
            )
        if not who.may(role):
            raise RefusedError(
                f"the key of {who.name} is for {who.role}; this needs one for {role}",
                status=403,
                reason="role",
            )
        return who

    def version(self, name: str | None) -> Version:
        """The version in use of the guard `name`; None: of the only one."""
        names = self.guards.names()
        if name is None and len(names) > 1:
            raise UnknownGuardError(
                f"several guards are served: {', '.join(names)}; say which: /v1/guards/{names[0]}"
            )
        return self.guards.current(name)

    async def rows(self, version: Version, content_type: str, body: bytes) -> Rows:
        """The rows of a body; a large one is read on a thread, so that others go on.

        version: the guard that will decide.
        content_type: the kind of the body.
        body: its bytes.
        """
        work = partial(read_body, content_type, body, version.guard, self.limits)
        return await self.aside(len(body), work)

    async def aside(self, size: int, work: Callable[[], T]) -> T:
        """What `work` makes of a body of `size` bytes; a large one is read on a thread."""
        if size <= LARGE or self._pool is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def submit(self, version: Version, rows: Rows, done: Callable[[Any], None]) -> None:
        """Queue a request, on the loop.

        version: the guard that decides.
        rows: the inputs.
        done: is called on the loop with an `AnsweredRequest` that is in the log, or an error.
        """
        if not self.running:
            raise RefusedError(
                "the service is stopping; ask another one", status=503, reason="stopping", retry=1
            )
        self.batcher.submit(
            QueuedRequest(version, rows, f"{self._start}{next(self._numbers):08x}", done)
        )

    async def decided(self, version: Version, rows: Rows) -> AnsweredRequest:
        """The decisions about `rows` by `version`, after they are in the log."""
        future: asyncio.Future[AnsweredRequest] = asyncio.get_running_loop().create_future()

        def done(answer: Any) -> None:
            if future.done():
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.submit(version, rows, done)
        return await future

    def refusal(self, error: Exception) -> RefusedError:
        """What a client is told about `error`."""
        if isinstance(error, RefusedError):
            return error
        if isinstance(error, BodyError):
            return RefusedError(str(error), status=error.status, reason="body")
        if isinstance(error, UnknownGuardError):
            return RefusedError(str(error), status=404, reason="guard")
        if isinstance(error, LogFullError):
            said = f"the decisions cannot be written, so they are not given: {error}"
            return RefusedError(said, status=507, reason="log full")
        if isinstance(error, LogUnavailableError):
            said = f"the decisions cannot be written, so they are not given: {error}"
            return RefusedError(said, status=503, reason="log", retry=1)
        if isinstance(error, NescioError):
            return RefusedError(str(error), status=422, reason="inputs")
        self.say("error", "a request failed", error=type(error).__name__, where=_where(error))
        return RefusedError(
            "an error of the service, which is in its log lines", status=500, reason="error"
        )

    async def load(
        self,
        name: str,
        path: Path | None = None,
        *,
        who: Who = LOCAL,
        force: bool = False,
        asked: bool = True,
    ) -> Version:
        """Load a new version of a guard, while the old one answers.

        name: of the guard.
        path: the file; None: that of the start.
        who: asks for it.
        force: also where inputs or classes differ.
        asked: whether somebody asked for it; else a version that is in use is not recorded again.
        """
        loop = asyncio.get_running_loop()
        before = self.guards.served(name).current
        known = self.guards.served(name).versions
        try:
            work = partial(self.guards.load, name, path, force=force)
            version = await loop.run_in_executor(None, work)
        except Exception as error:  # also of a network of the user's: the old version goes on
            known_kind = isinstance(error, NescioError | OSError)
            why = str(error) if known_kind else f"{type(error).__name__}: {error}"
            self.metrics.loads.add(name, "refused")
            self.say("error", "a guard was not loaded", guard=name, why=why)
            await self.record(who, "load refused", name, {"why": why})
            raise NescioError(why) from error
        if version is before and not asked:
            self.say("info", "a guard is the same", guard=name, version=version.version)
            return version
        self.metrics.loads.add(name, "loaded")
        for gone in set(known) - set(self.guards.served(name).versions):
            await loop.run_in_executor(None, self.end_watch, gone)
        await self._swapped(who, "load", before, version)
        return version

    async def rollback(self, name: str, *, who: Who = LOCAL) -> Version:
        """Put the version before the current one in use again.

        name: of the guard.
        who: asks for it.
        """
        before = self.guards.served(name).current
        version = self.guards.rollback(name)
        await self._swapped(who, "rollback", before, version)
        return version

    async def record(self, who: Who, what: str, about: str, details: Mapping[str, Any]) -> None:
        """Write what somebody did to the log.

        who: did it.
        what: the action.
        about: to what.
        details: JSON.
        """
        if self.log is None:
            return
        action = Action(
            time=time.time(),
            who=who.name,
            role=who.role,
            what=what,
            about=about,
            details=json.dumps(details),
        )
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self.log.record, action)
        except NescioError as error:
            self.say("error", "an action is not in the log", what=what, about=about, why=str(error))

    async def reload(self) -> None:
        """Read the keys again, and the guard files of the start that were changed since.

        What is damaged leaves the old one in use; so does a file that did not change, where an
        admin has loaded another one or gone back.
        """
        self._read_keys()
        if not await self._load_changed():
            self.say("info", "no guard file has changed")

    def allowed_path(self, name: str, path: str | None) -> Path | None:
        """The file from which an admin may load the guard `name`; others are refused.

        path: that of the start, or one in the folder of guards; None: that of the start.
        """
        first, folder = self.guards.served(name).path, self.settings.guards_folder
        if path is None:
            return None
        if "\0" in path:
            raise RefusedError("a path has no NUL", status=422, reason="path")
        asked = Path(path) if folder is None else folder / path
        if first is not None and Path(path).resolve() == first.resolve():
            return first
        if folder is None or not asked.resolve().is_relative_to(folder.resolve()):
            where = "the file of the start" if folder is None else f"files in {folder}"
            raise RefusedError(
                f"only {where} may be loaded; see --guards-folder", status=403, reason="path"
            )
        return asked.resolve()

    def say(self, level: str, message: str, **more: Any) -> None:
        """Write a line to the log lines of the process; inputs are never in it.

        level: info, warning or error.
        message: what happened.
        more: further values.
        """
        lines.log(getattr(logging, level.upper()), message, extra={"more": more})

    async def _swapped(self, who: Who, what: str, before: Version, after: Version) -> None:
        if before is not after:
            await asyncio.get_running_loop().run_in_executor(None, self._register, after)
        versions = {"before": before.version, "after": after.version}
        self.say("info", what, guard=after.name, who=who.name, **versions)
        await self.record(who, what, after.name, versions)

    def _read_keys(self) -> None:
        """Read the keys again; a file that is damaged or gone leaves the old ones in use."""
        if self.keys_path is None:
            return
        self._keys_seen = file_state(self.keys_path)
        try:
            self.keys = Keys.read(self.keys_path)
        except NescioError as error:
            self.say("error", "the keys were not read again; the old ones stay", why=str(error))
        else:
            self.say("info", "the keys were read again", keys=len(self.keys.known))

    async def _load_changed(self) -> list[str]:
        """Load the guards whose files have changed; gives their names."""
        loop = asyncio.get_running_loop()
        names = await loop.run_in_executor(None, lambda: list(self.guards.changed()))
        for name in names:
            with contextlib.suppress(NescioError):  # said and recorded; the old version goes on
                await self.load(name, asked=False)
        return names

    async def _watch_files(self, seconds: float) -> None:
        """Look at the files of keys and guards again and again."""
        while True:
            await asyncio.sleep(seconds)
            if self.keys_path is not None and file_state(self.keys_path) != self._keys_seen:
                self._read_keys()
            await self._load_changed()

    def _register(self, version: Version) -> None:
        if self.log is None:
            return
        try:
            self.log.register(version.name, version.version, version.about())
        except NescioError as error:
            self.say("error", "a guard is not in the log", guard=version.name, why=str(error))

    def _decide(self, version: Version, jobs: Sequence[QueuedRequest]) -> Sequence[Any]:
        """Decide for a batch, on the inference thread: sets the answers, gives the entries."""
        with quiet():
            found = Once(version.steady(joined_rows([job.rows for job in jobs])))
        picked, propensity = self._picks(version, found.columns())
        return answer_jobs(
            jobs,
            found,
            picked=picked,
            propensity=propensity,
            time=time.time(),
            replica=self.settings.replica,
            keep=self.settings.keep_inputs,
            keep_all=self.settings.all_inputs,
        )

    def _picks(
        self, version: Version, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which decisions go to review, and with which probability each did."""
        if version.watch is not None:
            found: tuple[NDArray[np.bool_], NDArray[np.float64]] = version.watch.picks(columns)
            return found
        refused = columns["decision"] != "answer"
        share = self.settings.sample
        drawn = self._draws.random(len(refused)) < share
        return refused | drawn, np.where(refused, 1.0, share)

    def _commit(self, entries: Sequence[Any], groups: Sequence[DecidedBatch]) -> None:
        """Write entries, on the writer thread; then tell those who watch, and count."""
        if self.log is not None:
            self._write(self.log, entries)
        for group in groups:
            if not group.entries:
                continue
            version = group.jobs[0].version
            counts: dict[str, int] = {}
            for entry in group.entries:
                counts[entry.decision] = counts.get(entry.decision, 0) + 1
            for decision, count in counts.items():
                self.metrics.decisions.add(version.name, decision, by=count)
            if version.watch is not None:
                self._watched(version, group.entries)

    def _write(self, log: DecisionLog, entries: Sequence[Any]) -> None:
        """Write entries; whatever the log refuses is the fault of no request."""
        try:
            log.write(entries)
        except LogUnavailableError:
            raise
        except NescioError as error:
            raise LogUnavailableError(str(error)) from error

    def end_watch(self, version: Version) -> None:
        """Save what was watched of `version`, and end; what cannot be saved is said."""
        if version.watch is None:
            return
        try:
            version.watch.close()
        except Exception as error:
            self.say("error", "a watch was not saved", guard=version.name, why=f"{error!r}"[:200])

    def _watched(self, version: Version, entries: Sequence[Any]) -> None:
        """Tell what watches; its errors cost no answer."""
        try:
            version.watch.add(entries)
        except Exception as error:
            self.say("error", "watching failed", guard=version.name, why=f"{error!r}"[:200])


def _where(error: Exception) -> str:
    """The line of the source in which an error came up; its text may quote inputs."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return "unknown"
    return f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
