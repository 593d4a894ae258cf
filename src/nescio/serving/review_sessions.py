"""Sign-in of people by a key: a signed cookie, and a token that each form carries.

The secret that signs is in the decision log, so a sign-in counts in all processes of a service. The
digests of the person's own keys are part of it: neither the log nor the file of keys is enough to
forge a cookie, and a sign-in ends when its key is taken out or replaced.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from nescio.serving.decision_log import DecisionLog
from nescio.serving.review_queue import ADMIN, REVIEW, Person, Reviewer

COOKIE = "nescio_review"
SECONDS = 12 * 3600.0  # that a sign-in holds
SECRET, ENDED = "sign-in/secret", "sign-in/ended/"  # states of the log
LOCAL = Reviewer("local", ADMIN)  # everybody, where there are no keys


class KeyHolder(Protocol):
    """What knows the keys of people."""

    def who(self, authorization: str) -> Person | None:
        """Who has this key; None: nobody."""


@dataclass(frozen=True, kw_only=True)
class ReviewSession:
    """Somebody who is signed in.

    who: the reviewer.
    token: what each form must carry, so that no other page can send it.
    """

    who: Reviewer
    token: str


class ReviewSessions:
    """Cookies that all processes with one log sign alike.

    log: the decision log, which holds the secret, and who signed out.
    keys: who may sign in, asked for each cookie; None: everybody is an admin called local.
    seconds: how long a sign-in holds.
    now: the clock, in seconds since 1970.
    """

    def __init__(
        self,
        log: DecisionLog,
        keys: Callable[[], KeyHolder | None],
        *,
        seconds: float = SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._keys = log, keys
        self._seconds, self._now = seconds, now

    @cached_property
    def _secret(self) -> bytes:
        """That of the log; the first process makes it."""
        return self._log.first_state(SECRET, secrets.token_bytes(32))

    def start(self, who: Reviewer) -> str:
        """The cookie of `who`."""
        body = {"name": who.name, "role": who.role, "once": secrets.token_hex(16)}
        text = json.dumps({**body, "until": self._now() + self._seconds})
        packed = base64.urlsafe_b64encode(text.encode()).decode()
        return f"{packed}.{self._sign('cookie', packed, who)}"

    def read(self, cookie: str | None) -> ReviewSession | None:
        """Who is signed in by this `cookie`; None where it is forged, too old or signed out."""
        body = self._body(cookie)
        if body is None or self._log.state(f"{ENDED}{body['once']}") is not None:
            return None
        who = Reviewer(name=body["name"], role=body["role"])
        return ReviewSession(who=who, token=self._sign("form", body["once"], who))

    def end(self, cookie: str | None) -> None:
        """Sign out: the `cookie` is worth nothing from now on, in any process."""
        body = self._body(cookie)
        if body is not None:
            self._log.save_state(f"{ENDED}{body['once']}", int(body["until"]), b"")

    def is_token(self, session: ReviewSession, given: str) -> bool:
        """Whether a form came from a page of this session.

        session: whoever is signed in.
        given: the token in the form.
        """
        return hmac.compare_digest(session.token.encode(), given.encode())

    def _body(self, cookie: str | None) -> dict[str, Any] | None:
        """What a cookie says, if it is signed and its time is not over."""
        packed, _, signature = (cookie or "").rpartition(".")
        try:  # it may come from anybody
            body: dict[str, Any] = json.loads(base64.urlsafe_b64decode(packed.encode()))
            who = Reviewer(name=body["name"], role=body["role"])
            good = self._sign("cookie", packed, who)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not hmac.compare_digest(signature.encode(), good.encode()):
            return None
        return body if body["until"] >= self._now() and self._has_key(who) else None

    def _has_key(self, who: Reviewer) -> bool:
        """Whether somebody who signed in earlier still has a key of this role."""
        keys = self._keys()
        if keys is None:
            return who == LOCAL
        return who.role in (REVIEW, ADMIN) and self._digests(who) != []

    def _digests(self, who: Reviewer) -> list[str] | None:
        """The digests of the keys of `who`; None where the keys do not tell."""
        known = getattr(self._keys(), "known", None)
        if known is None:
            return None
        own = (who.name, who.role)
        return sorted(digest for digest, one in known.items() if (one.name, one.role) == own)

    def _sign(self, what: str, text: str, who: Reviewer) -> str:
        open_to_all = self._keys() is None  # such a cookie is worth nothing once there are keys
        said = json.dumps([what, text, open_to_all, self._digests(who)])
        return hmac.new(self._secret, said.encode(), hashlib.sha256).hexdigest()
