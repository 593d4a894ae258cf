"""Requests to predict, read and answered without a framework; all others go to the application.

Of a service with small networks, most of the time goes into HTTP. So this path, which every
prediction takes, has no objects of a framework: headers, body, rows, queue, answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import orjson

from nescio.serving.batching import RefusedError
from nescio.serving.bodies import check_encoding
from nescio.serving.other_sites import refuse_other_sites
from nescio.serving.service import ALL_BODIES, TOO_MANY, Service
from nescio.serving.tracing_marks import Marks

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
ARROW = "application/vnd.apache.arrow.stream"
JSON = (b"content-type", b"application/json")
KINDS = {True: (b"content-type", ARROW.encode()), False: JSON}
PAUSE = 0.05  # seconds before a 503: clients that ask again at once would take the processor
BEFORE, AFTER = "/v1/guards/", "/predict"


class GoneError(Exception):
    """The client has left before its request was whole."""


class Front:
    """The application as a server calls it.

    service: decides. app: answers all other requests.
    """

    def __init__(self, service: Service, app: App) -> None:
        self.service, self.app = service, app
        self.marks = Marks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, `scope`, whose body `receive` gives; the answer goes to `send`."""
        if scope["type"] == "http" and self.service.keys is None:
            try:  # all pages: without keys, whoever comes is an admin
                refuse_other_sites(headers_of(scope))
            except RefusedError as error:
                await refuse(self.service, error, send)
                return
        if scope["type"] == "http" and scope["method"] == "POST":
            predicts, name = asks_to_predict(scope["path"])
            if predicts:
                await self.predict(name, scope, receive, send)
                return
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            await self._whole(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the application a request whose body is there and within the limits."""
        try:
            if self.service.full and scope["path"].endswith("/infer"):
                await asyncio.sleep(PAUSE)
                raise RefusedError(TOO_MANY, status=503, reason="wait", retry=1)
            body = await whole_body(self.service, headers_of(scope), receive)
        except GoneError:
            return
        except RefusedError as error:
            await refuse(self.service, error, send)
            return
        told = False

        async def again() -> MutableMapping[str, Any]:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        self.service.body_bytes += len(body)
        try:
            await self.app(scope, again, send)
        finally:
            self.service.body_bytes -= len(body)

    async def predict(self, name: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide about the rows of a body.

        name: of the guard; None: the only one.
        scope, receive, send: the request, as a server gives it.
        """
        service = self.service
        began = time.perf_counter()
        size = 0
        try:
            headers = headers_of(scope)
            service.authorized(headers, "predict")
            if service.full:
                await asyncio.sleep(PAUSE)
                raise RefusedError(TOO_MANY, status=503, reason="wait", retry=1)
            check_encoding(headers.get("content-encoding"))
            body = await whole_body(service, headers, receive)
            size = len(body)
            service.body_bytes += size
            began = time.perf_counter()
            with self.marks.span(headers):
                version = service.version(name)
                rows = await service.rows(version, headers.get("content-type", ""), body)
                answered = await service.decided(version, rows)
                self.marks.mark(answered)
            arrow = ARROW in headers.get("accept", "")
            answer = answered.arrow() if arrow else answered.json()
        except GoneError:
            service.metrics.refused.add("client gone")
            return
        except Exception as error:
            await refuse(service, service.refusal(error), send)
            return
        finally:
            service.body_bytes -= size
        service.metrics.seconds.add(time.perf_counter() - began)
        await reply(service, send, 200, answer, [KINDS[arrow]])


def asks_to_predict(path: str) -> tuple[bool, str | None]:
    """Whether a POST to `path` asks for predictions, and of which guard; None: the only one."""
    if path == "/v1/predict":
        return True, None
    if path.startswith(BEFORE) and path.endswith(AFTER):
        name = path[len(BEFORE) : -len(AFTER)]
        return bool(name) and "/" not in name, name
    return False, None


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, `scope`, with names in lower case."""
    return {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}


async def whole_body(service: Service, headers: dict[str, str], receive: Receive) -> bytes:
    """The body of a request, refused as soon as it is known to be too large.

    service: has the limits.
    headers: of the request, with names in lower case.
    receive: gives the parts of the body.
    """
    most = service.limits.body_bytes
    said = headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise _too_large(most)
    if service.body_bytes > ALL_BODIES * most:
        raise RefusedError(
            "the bodies of other requests take all the memory there is for them; try again in a "
            "second",
            status=503,
            reason="memory",
            retry=1,
        )
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        return body
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            if message["type"] != "http.request":
                raise GoneError
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            service.body_bytes += len(part)
            if size > most:
                raise _too_large(most)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()
    finally:
        service.body_bytes -= size


async def refuse(service: Service, refused: RefusedError, send: Send) -> None:
    """Answer that a request is refused, and count it.

    service: counts. refused: why. send: takes the answer.
    """
    service.metrics.refused.add(refused.reason)
    headers = [JSON, *refusal_headers(refused)]
    await reply(service, send, refused.status, orjson.dumps({"error": str(refused)}), headers)


def refusal_headers(refused: RefusedError) -> list[tuple[bytes, bytes]]:
    """The headers that go with a status: `refused` says when to try again, and how to get in."""
    found = []
    if refused.retry is not None:
        found.append((b"retry-after", str(refused.retry).encode()))
    if refused.status == 401:
        found.append((b"www-authenticate", b"Bearer"))
    return found


async def reply(
    service: Service,
    send: Send,
    status: int,
    body: bytes,
    headers: Iterable[tuple[bytes, bytes]],
) -> None:
    """Send a whole answer.

    service: counts.
    send: takes it.
    status: of HTTP.
    body: its bytes.
    headers: beside the length.
    """
    service.metrics.requests.add(str(status))
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


def _too_large(most: int) -> RefusedError:
    return RefusedError(
        f"the body has more than {most} bytes; send fewer rows at a time", status=413, reason="body"
    )
