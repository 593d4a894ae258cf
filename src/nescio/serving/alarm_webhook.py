"""Alarms, sent to an address: in a separate thread, tried again, never in the way."""

import contextlib
import hashlib
import hmac
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

TRIES, FIRST_WAIT, LONGEST_WAIT = 8, 1.0, 300.0  # seconds
TIMEOUT = 5.0
WAITING = 100  # alarms that wait, at most
SIGNATURE = "X-Nescio-Signature"


class Webhook:
    """Sends JSON to an address by POST; redirects are not followed.

    url: http:// or https://.
    secret: with it, the header X-Nescio-Signature is sha256= and the HMAC of the body.
    delivered: is called with what was sent, and whether it arrived.
    first_wait: seconds before the second try; each further wait is twice as long.
    tries: how often it is tried.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        delivered: Callable[[Mapping[str, Any], bool], None] | None = None,
        first_wait: float = FIRST_WAIT,
        tries: int = TRIES,
    ) -> None:
        self.url, self.secret, self.delivered = url, secret, delivered
        self.first_wait, self.tries = first_wait, tries
        self._queue: Queue[Mapping[str, Any]] = Queue(WAITING)
        self._ended = Event()
        self._thread: Thread | None = None

    def send(self, content: Mapping[str, Any]) -> None:
        """Send JSON, later; returns at once. With a full queue, it is not sent."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="nescio_webhook", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(content)
        except Full:
            self._tell(content, arrived=False)

    def close(self, seconds: float = 2.0) -> None:
        """End, after at most some `seconds` for what is being sent."""
        until = time.monotonic() + seconds
        while not self._queue.empty() and time.monotonic() < until:
            time.sleep(0.02)
        self._ended.set()
        if self._thread is not None:
            self._thread.join(max(0.1, until - time.monotonic()))

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                content = self._queue.get(timeout=0.2)
            except Empty:
                continue
            arrived = self._deliver(content)
            if arrived or not self._ended.is_set():  # what is cut off is sent after a restart
                self._tell(content, arrived=arrived)

    def _deliver(self, content: Mapping[str, Any]) -> bool:
        """Try until it arrives; False: it never did."""
        body = json.dumps(content, sort_keys=True).encode()
        wait = self.first_wait
        for attempt in range(self.tries):
            if post(self.url, body, self.secret):
                return True
            if attempt + 1 == self.tries or self._ended.wait(wait):
                return False
            wait = min(2 * wait, LONGEST_WAIT)
        return False

    def _tell(self, content: Mapping[str, Any], *, arrived: bool) -> None:
        if self.delivered is not None:
            with contextlib.suppress(Exception):  # the log may be closed by now
                self.delivered(content, arrived)


def post(url: str, body: bytes, secret: str | None = None, *, timeout: float = TIMEOUT) -> bool:
    """Whether `url` took the `body`: a status from 200 to 299.

    The opener knows http and https and nothing else: no files, proxies, redirects or passwords.

    secret: that signs the body; None: it is not signed.
    timeout: in seconds.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    headers = {"Content-Type": "application/json", "User-Agent": "nescio"}
    if secret is not None:
        signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers[SIGNATURE] = f"sha256={signed}"
    try:
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        answer = opener.open(request, timeout=timeout)
        if answer is None:  # neither http nor https
            return False
        with answer:
            return 200 <= int(answer.status) < 300
    except (OSError, ValueError, HTTPException):
        return False
