"""The service as a process: a server, its limits on connections, signals, and a clean end."""

import asyncio
import contextlib
import gc
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from nescio.core import NescioError
from nescio.serving.app import make_app
from nescio.serving.connections import TimedConnection, guarded_protocol
from nescio.serving.decision_log import DecisionLog, open_log
from nescio.serving.keys import Keys
from nescio.serving.process_lines import log_lines
from nescio.serving.served_guards import AnyServed, Load, ServedGuards
from nescio.serving.service import Service
from nescio.serving.service_settings import ServiceSettings
from nescio.serving.watch import Watch
from nescio.serving.watch_settings import WatchSettings

LOG = "decisions.db"
DOORS = 32  # connections that are accepted in a turn of the loop
SOONER, SHORTEST = 0.9, 1e-3  # share of the days of decisions; days
SWITCH = 0.00002  # seconds for which a thread of Python may keep the others waiting


class Server(uvicorn.Server):
    """A server that ends with what it accepted answered, and with exit code 0.

    service: is served. config: of uvicorn.
    """

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.service = service
        self.url: str | None = None  # where it listens, to be said when it does
        self.loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, say so, and look for connections that take too long."""
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.url is not None:
            names, log = ", ".join(self.service.guards.names()), log_place(self.service.log)
            self.service.say("info", "serving", url=self.url, guards=names, log=log)
        self._keep(self._close_late())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that the service stops, answer what was accepted, write the log, and end."""
        self.service.draining = True
        self.service.say("info", "stopping")
        await asyncio.sleep(self.service.settings.drain_seconds)
        await super().shutdown(sockets)

    def reload(self) -> None:
        """Read keys and guard files again; safe in a signal handler."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(lambda: self._keep(self.service.reload()))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the service cleanly, and SIGHUP loads again; afterwards all is as before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted: dict[int, Any] = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self.handle_exit)
        if hasattr(signal, "SIGHUP"):
            wanted[signal.SIGHUP] = lambda *_: self.reload()
        before = {number: signal.signal(number, call) for number, call in wanted.items()}
        try:
            yield
        finally:
            for number, call in before.items():
                signal.signal(number, call)

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_late(self) -> None:
        pause = min(self.service.settings.head_seconds, self.service.settings.body_seconds) / 4
        while True:
            await asyncio.sleep(min(pause, 1.0))
            now = time.monotonic()
            for one in list(self.server_state.connections):
                if isinstance(one, TimedConnection) and one.late(now):
                    self.service.metrics.refused.add("slow connection")
                    one.transport.abort()


@dataclass(frozen=True)
class Running:
    """A service that runs on a thread.

    url: where it answers. service: itself. server: that of uvicorn.
    """

    url: str
    service: Service
    server: Server


def build_service(
    guards: Mapping[str, Any] | Any,
    *,
    log: str | Path | DecisionLog | None = LOG,
    keys: str | Path | Keys | None = None,
    settings: ServiceSettings | None = None,
    readers: Mapping[str, Load] | None = None,
) -> Service:
    """A service, ready to be started.

    guards: a guard, the path of its file, or several of them by name.
    log: the decision log, its path or its URL; None: decisions are not written down.
    keys: who may ask, or the file of the keys; None: everybody on this machine.
    settings: limits and times; None: the default ones.
    readers: what reads the guard of a name from its file; others: `nescio.load`.
    """
    settings = settings or ServiceSettings()
    named = guards if isinstance(guards, Mapping) else {default_name(guards): guards}
    if not named:
        raise NescioError("there is no guard to serve; name at least one")
    path = Path(keys) if isinstance(keys, (str, Path)) else None
    known = keys if keys is None or isinstance(keys, Keys) else Keys.read(keys)
    if known is None and not settings.local:
        raise NescioError(
            f"{settings.host} can be reached from other machines, so keys are needed; make one: "
            "nescio serve --new-key predict:NAME --keys keys.txt, then serve with --keys keys.txt"
        )
    opened = open_log(log) if isinstance(log, (str, Path)) else log
    served = ServedGuards(watch_maker(opened, settings))
    for name, source in named.items():
        served.add(name, source, (readers or {}).get(name))
    return Service(served, opened, keys=known, settings=settings, keys_path=path)


def log_place(log: DecisionLog | None) -> str:
    """Where a log is, for people: its file, or its URL without the password; or `none`.

    log: the decision log; None: there is none.
    """
    return "none" if log is None else str(log.database.place)


def default_name(source: Any) -> str:
    """The name of a guard that got none: that of its file, or `guard`."""
    if not isinstance(source, (str, Path)):
        return "guard"
    stem = Path(source).name.partition(".")[0]
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "-" for one in stem)


def watch_maker(
    log: DecisionLog | None, settings: ServiceSettings
) -> Callable[[str, str, AnyServed], Watch] | None:
    """What makes the watch of a version of a guard; None: nothing watches without a log.

    log: the decision log.
    settings: of the service.
    """
    if log is None:
        return None

    def make(name: str, version: str, guard: AnyServed) -> Watch:
        own = WatchSettings(
            risk=guard.risk,
            confidence=guard.confidence,
            budget=settings.sample,
            reviews=settings.reviews,
            wait_days=wait_days(settings.decision_days),
            replica=settings.replica,
            webhook=settings.webhook,
            webhook_secret=settings.webhook_secret,
        )
        return Watch(log, name, version, guard, own).start()

    return make


def wait_days(decision_days: float | None) -> float:
    """Days for which a label is waited for: an answer that is deleted first would count nowhere.

    decision_days: days for which decisions are kept; None: forever.
    """
    own = WatchSettings().wait_days
    return own if decision_days is None else max(min(own, SOONER * decision_days), SHORTEST)


def make_server(
    service: Service, *, tls_cert: str | Path | None = None, tls_key: str | Path | None = None
) -> Server:
    """The server of `service`.

    tls_cert: the certificate, a PEM file; None: no TLS.
    tls_key: its private key.
    """
    tls = check_tls(tls_cert, tls_key)
    settings = service.settings
    config = uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=guarded_protocol(service),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(max(1, settings.head_seconds)),
        timeout_graceful_shutdown=int(settings.timeout + settings.body_seconds) + 1,
        backlog=2048,
        **tls,
    )
    return Server(service, config)


def serve(
    guards: Mapping[str, Any] | Any,
    *,
    log: str | Path | DecisionLog | None = LOG,
    keys: str | Path | Keys | None = None,
    settings: ServiceSettings | None = None,
    readers: Mapping[str, Load] | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
) -> None:
    """Serve guards until a signal ends it: SIGTERM, or Ctrl-C.

    guards: a guard, the path of its file, or several of them by name.
    log: the decision log, its path or its URL; None: decisions are not written down.
    keys: who may ask, or the file of the keys; None: everybody on this machine.
    settings: limits and times; None: the default ones.
    readers: what reads the guard of a name from its file; others: `nescio.load`.
    tls_cert: the certificate, a PEM file; None: no TLS.
    tls_key: its private key.
    """
    check_tls(tls_cert, tls_key)
    service = build_service(guards, log=log, keys=keys, settings=settings, readers=readers)
    serve_service(service, tls_cert=tls_cert, tls_key=tls_key)


def serve_service(
    service: Service, *, tls_cert: str | Path | None = None, tls_key: str | Path | None = None
) -> None:
    """Serve what `build_service` made, until a signal ends it.

    service: to serve.
    tls_cert: the certificate, a PEM file; None: no TLS.
    tls_key: its private key.
    """
    server = make_server(service, tls_cert=tls_cert, tls_key=tls_key)
    place = listening(service.settings)
    with log_lines(service.settings.log_json), quick_switches(), short_collections():
        scheme = "http" if tls_cert is None else "https"
        server.url = f"{scheme}://{_host(service.settings.host)}:{place.getsockname()[1]}"
        server.run(sockets=doors(place))
        service.say("info", "stopped")


@contextlib.contextmanager
def run_in_thread(
    guards: Mapping[str, Any] | Any = None,
    *,
    service: Service | None = None,
    log: str | Path | DecisionLog | None = None,
    keys: str | Path | Keys | None = None,
    settings: ServiceSettings | None = None,
    readers: Mapping[str, Load] | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
) -> Iterator[Running]:
    """Serve on a free port of this machine, on a thread, until the block ends; for tests.

    guards: a guard, the path of its file, or several of them by name.
    service: one that is ready, instead of all these.
    log: the decision log, its path or its URL; None: decisions are not written down.
    keys: who may ask, or the file of the keys; None: everybody on this machine.
    settings: limits and times; None: the default ones on a free port.
    readers: what reads the guard of a name from its file; others: `nescio.load`.
    tls_cert: the certificate, a PEM file; None: no TLS.
    tls_key: its private key.
    """
    if service is None:
        settings = settings or ServiceSettings(port=0)
        service = build_service(guards, log=log, keys=keys, settings=settings, readers=readers)
    server = make_server(service, tls_cert=tls_cert, tls_key=tls_key)
    place = listening(service.settings)
    port = place.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": doors(place)}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    if not server.started:
        raise NescioError("the service did not start; its log lines say why")
    scheme = "http" if tls_cert is None else "https"
    try:
        yield Running(f"{scheme}://127.0.0.1:{port}", service, server)
    finally:
        server.should_exit = True
        thread.join()


def listening(settings: ServiceSettings) -> socket.socket:
    """A socket that listens where `settings` say."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        place = socket.socket(family, kind, protocol)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(address)
    except OSError as error:
        raise NescioError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; choose "
            "another --port, or --port 0 for a free one"
        ) from error
    place.set_inheritable(False)
    return place


def doors(place: socket.socket) -> list[socket.socket]:
    """A listening socket `place` several times: libuv accepts one of each in a turn of its loop."""
    return [place, *(place.dup() for _ in range(DOORS - 1))]


def check_tls(cert: str | Path | None, key: str | Path | None) -> dict[str, Any]:
    """The settings of TLS: a certificate `cert` and its private key `key`, which fit."""
    if cert is None and key is None:
        return {}
    if cert is None or key is None:
        raise NescioError("TLS needs both: --tls-cert FILE and --tls-key FILE")
    for path in (cert, key):
        if not Path(path).is_file():
            raise NescioError(f"there is no file {path}; TLS needs a certificate and its key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise NescioError(
            f"{cert} and {key} are not a certificate with its private key, in PEM: {error}"
        ) from error
    return {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Leave what is there at the start out of garbage collections, which would stop all threads.

    Of the objects of PyTorch alone, one takes more than a tenth of a second, every few seconds.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def quick_switches() -> Iterator[None]:
    """Let threads of Python take turns more often: the loop must not wait for inference."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
