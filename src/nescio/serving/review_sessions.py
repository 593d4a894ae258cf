"""Sign-in of people by a key: a signed cookie, and a token that each form carries."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from nescio.serving.review_queue import Reviewer

COOKIE = "nescio_review"
SECONDS = 12 * 3600.0  # that a sign-in holds


@dataclass(frozen=True, kw_only=True)
class ReviewSession:
    """Somebody who is signed in.

    who: the reviewer.
    token: what each form must carry, so that no other page can send it.
    """

    who: Reviewer
    token: str


class ReviewSessions:
    """Cookies that are signed by a secret of this process: a new process asks to sign in again.

    seconds: how long a sign-in holds.
    now: the clock, in seconds since 1970.
    """

    def __init__(self, *, seconds: float = SECONDS, now: Callable[[], float] = time.time) -> None:
        self._secret = secrets.token_bytes(32)
        self._seconds, self._now = seconds, now
        self._ended: dict[str, float] = {}

    def start(self, who: Reviewer) -> str:
        """The cookie of `who`."""
        body = {"name": who.name, "role": who.role, "once": secrets.token_hex(16)}
        text = json.dumps({**body, "until": self._now() + self._seconds})
        packed = base64.urlsafe_b64encode(text.encode()).decode()
        return f"{packed}.{self._sign('cookie', packed)}"

    def read(self, cookie: str | None) -> ReviewSession | None:
        """Who is signed in by this `cookie`; None where it is forged, too old or signed out."""
        packed, _, signature = (cookie or "").rpartition(".")
        good = self._sign("cookie", packed)
        if not hmac.compare_digest(signature.encode(), good.encode()):
            return None
        body = json.loads(base64.urlsafe_b64decode(packed))
        if body["until"] < self._now() or body["once"] in self._ended:
            return None
        who = Reviewer(name=body["name"], role=body["role"])
        return ReviewSession(who=who, token=self._sign("form", body["once"]))

    def end(self, cookie: str | None) -> None:
        """Sign out: the `cookie` is worth nothing from now on."""
        if self.read(cookie) is None:
            return
        body = json.loads(base64.urlsafe_b64decode((cookie or "").rpartition(".")[0]))
        now = self._now()
        self._ended = {once: until for once, until in self._ended.items() if until >= now}
        self._ended[body["once"]] = body["until"]

    def is_token(self, session: ReviewSession, given: str) -> bool:
        """Whether a form came from a page of this session.

        session: whoever is signed in.
        given: the token in the form.
        """
        return hmac.compare_digest(session.token.encode(), given.encode())

    def _sign(self, what: str, text: str) -> str:
        return hmac.new(self._secret, f"{what} {text}".encode(), hashlib.sha256).hexdigest()
