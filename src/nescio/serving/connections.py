"""Connections: their limits, and requests to predict that are answered on the spot.

Of a service with small networks, most of the time goes into HTTP. A plain request to predict, which
is nearly every one, is therefore answered by the connection itself: no task, no events, one write.
Whatever is out of the ordinary (a body that comes slowly or is large, `Expect: 100-continue`,
pipelining, tracing) takes the way through the application, `front.py`, to the same answer.
"""

import time
from typing import Any, ClassVar

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from nescio.serving.bodies import read_body
from nescio.serving.front import ARROW, PAUSE, asks_to_predict, refusal_headers
from nescio.serving.other_sites import own_host
from nescio.serving.service import LARGE, TOO_MANY, Service

DRAINED = 8  # times the largest body: what is read and dropped of one that is too large
BUSY = b'{"error":"too many connections; try again in a second"}'
REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(BUSY), BUSY)
)
JSON = b"content-type: application/json\r\n"
LATER = JSON + b"retry-after: 1\r\n"
MANY = orjson.dumps({"error": TOO_MANY})
UNUSUAL = {b"expect", b"upgrade", b"transfer-encoding", b"content-encoding"}  # headers
KEEP = b"keep-alive"


class Ignored:
    """An event that nobody waits for."""

    def set(self) -> None:
        """Do nothing."""


class Quick:
    """A request to predict that its connection answers; to uvicorn it is a request as any other.

    protocol: the connection. service: decides. name: of the guard; None: the only one. headers: of
    the request, with names in lower case.
    """

    __slots__ = (
        *("began", "body", "disconnected", "headers", "keep_alive", "more_body", "name"),
        *("protocol", "response_complete", "service"),
    )
    message_event = Ignored()

    def __init__(
        self, protocol: Any, service: Service, name: str | None, headers: dict[bytes, bytes]
    ) -> None:
        self.protocol, self.service, self.name, self.headers = protocol, service, name, headers
        self.body = b""
        self.more_body = self.keep_alive = True
        self.response_complete = self.disconnected = False

    def whole(self) -> None:
        """The body is there: read its rows, and queue them."""
        service = self.service
        if service.full:
            service.metrics.refused.add("wait")
            service.metrics.requests.add("503")
            self.protocol.loop.call_later(PAUSE, self.send, 503, LATER, MANY)
            return
        self.began = time.perf_counter()
        service.body_bytes += len(self.body)
        try:
            if service.keys is not None or not self.is_own():
                known = {key.decode(): self.headers[key].decode("latin-1") for key in self.headers}
                service.authorized(known, "predict")
            version = service.version(self.name)
            kind = self.headers.get(b"content-type", b"").decode("latin-1")
            rows = read_body(kind, self.body, version.guard, service.limits)
            service.submit(version, rows, self.done)
        except Exception as error:
            self.done(error)

    def is_own(self) -> bool:
        """Whether no page of another site sends this, at a glance; `authorized` looks closer."""
        return b"origin" not in self.headers and own_host(
            self.headers.get(b"host", b"").decode("latin-1")
        )

    def done(self, answer: Any) -> None:
        """Answer, on the loop: `answer` is what the request is told, or an error."""
        service = self.service
        service.body_bytes -= len(self.body)
        kind = JSON
        if not isinstance(answer, Exception):
            try:
                if ARROW.encode() in self.headers.get(b"accept", b""):
                    kind, answer = f"content-type: {ARROW}\r\n".encode(), answer.arrow()
                else:
                    answer = answer.json()
                service.metrics.seconds.add(time.perf_counter() - self.began)
            except Exception as error:
                answer = error
        status = 200
        if isinstance(answer, Exception):
            refused = service.refusal(answer)
            service.metrics.refused.add(refused.reason)
            status, answer = refused.status, orjson.dumps({"error": str(refused)})
            more = (b"%s: %s\r\n" % pair for pair in refusal_headers(refused))
            kind = b"".join([JSON, *more])
        service.metrics.requests.add(str(status))
        self.send(status, kind, answer)

    def send(self, status: int, headers: bytes, body: bytes) -> None:
        """Write the whole answer.

        status: of HTTP. headers: as they are written. body: its bytes.
        """
        protocol = self.protocol
        self.response_complete = True
        if self.disconnected or protocol.transport.is_closing():
            return
        date = b"".join(b"%s: %s\r\n" % pair for pair in protocol.server_state.default_headers)
        close = b"" if self.keep_alive else b"connection: close\r\n"
        head = b"%s%s%scontent-length: %d\r\n%s\r\n"
        start = head % (STATUS_LINE[status], date, headers, len(body), close)
        protocol.transport.write(start + body)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


class TimedConnection(HttpToolsProtocol):
    """A connection that is closed if a request does not arrive in time."""

    service: ClassVar[Service]
    since = 0.0  # when it began to wait for the rest of a request; 0: it does not
    allowed = 0.0  # seconds for it
    dropped = 0  # bytes of a body that nobody wants

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since, self.allowed = time.monotonic(), self.service.settings.head_seconds
        self.service.connections = len(self.connections)
        if len(self.connections) > self.service.settings.connections:
            self.service.metrics.refused.add("connections")
            transport.write(REFUSED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.service.connections = len(self.connections)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.since, self.dropped = time.monotonic(), 0
        self.allowed = self.service.settings.head_seconds

    def on_headers_complete(self) -> None:
        self.since, self.allowed = time.monotonic(), self.service.settings.body_seconds
        if not self._quickly():
            super().on_headers_complete()

    def _quickly(self) -> bool:
        """Whether this request is answered here; then it is the current one."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or not self.service.quick or self.parser.get_method() != b"POST":
            return False
        path = self.url.partition(b"?")[0].decode("latin-1")
        predicts, name = asks_to_predict(path)
        if not predicts or "%" in path or self.flow.write_paused:
            return False
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > LARGE or UNUSUAL & headers.keys():
            return False
        if self.parser.get_http_version() != "1.1":
            return False
        if headers.get(b"connection", KEEP).lower() != KEEP:
            return False
        self.cycle = Quick(self, self.service, name, headers)  # type: ignore[assignment]
        return True

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self.dropped += len(body)
            if self.dropped > DRAINED * self.service.settings.body_bytes:
                self.transport.close()
                return
        if isinstance(self.cycle, Quick) and not self.cycle.response_complete:
            self.cycle.body += body  # without the pause of uvicorn, which nobody would end
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        cycle = self.cycle
        self.since = time.monotonic()
        self.allowed = self.service.settings.timeout + self.service.settings.body_seconds
        super().on_message_complete()
        if isinstance(cycle, Quick):
            cycle.whole()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.cycle.more_body:
            self.since = 0.0

    def late(self, now: float) -> bool:
        """Whether a request has taken too long to arrive, or its answer to be read."""
        return self.since > 0 and now - self.since > self.allowed


def guarded_protocol(service: Service) -> type[HttpToolsProtocol]:
    """The protocol of a connection, with the limits of `service`."""
    return type("GuardedConnection", (TimedConnection,), {"service": service})
