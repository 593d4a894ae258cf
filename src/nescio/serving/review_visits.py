"""Requests to the review pages: who is there, the form they sent, and what is refused."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from nescio.serving.review_queue import Reviewer
from nescio.serving.review_sessions import ReviewSession

FORM = 1 << 16  # bytes of a form
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "script-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refusal(Exception):  # noqa: N818
    """A page that cannot be shown, with its status and the reason in words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Visit:
    """One request of somebody, who may be signed in.

    request: the request.
    session: whoever is signed in; None: nobody is.
    cookie: a cookie to set; None: none.
    form: the fields of the form that was sent.
    root: the path below which the service is.
    base: the path of the review pages.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.session: ReviewSession | None = None
        self.cookie: str | None = None
        self.form: Mapping[str, str] = {}
        self.root = str(request.scope.get("root_path", ""))
        self.base = f"{self.root}/review"

    @property
    def who(self) -> Reviewer:
        """Whoever is signed in."""
        if self.session is None:
            raise Refusal(401, "Sign in first.")
        return self.session.who

    def to(self, path: str) -> Response:
        """Send the browser to another page, after a form was taken."""
        return RedirectResponse(f"{self.base}{path}", 303)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of the form in a `request`, the last of each name."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(415, "A form is expected.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM:
            raise Refusal(413, "The form is too large.")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Refusal(400, "The form cannot be read.") from None
    return {name: values[-1] for name, values in fields.items()}


def check_origin(request: Request) -> None:
    """Refuse a `request` that another page sent, where the browser says so."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise Refusal(403, "This form was sent by another site.")
