"""The review queue as web pages: rendered by the server, complete without script.

`router(service)` is mounted by the service, or in any FastAPI application. People sign in with the
key of a reviewer or an admin. Pages are at /review; nothing on them comes from elsewhere. A page
about an item never says what the guard decided, unless ?guess=1 asks for it, which is recorded.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from nescio.core import NescioError
from nescio.serving import review_items as items
from nescio.serving.consensus import LABEL, SKIP, Standing
from nescio.serving.decision_log import DecisionLog, LogFullError, LogUnavailableError
from nescio.serving.review_queue import (
    ADMIN,
    NONE_WORDS,
    REVIEW,
    Reviewer,
    ReviewItem,
    ReviewQueue,
    keyed,
    said,
)
from nescio.serving.review_sessions import COOKIE, LOCAL, KeyHolder, ReviewSessions
from nescio.serving.review_templates import FILES, file_text, rendered
from nescio.serving.review_visits import HEADERS, Refusal, Visit, check_origin, read_form

LISTED = 48  # items on the page of all
FEW = 4  # values of a row there
WATCH = "watch"  # the page to which a sign-in may lead instead of the list
PAUSE = 10.0  # seconds between entries of the log about wrong keys


class Reviewable(Protocol):
    """A service with a log that people review.

    `reviews`, of the service or of its `settings`, is the number of reviewers that each decision
    needs; without it one is enough. Where the keys have `known`, as those of a file, a sign-in ends
    when its key is taken out.

    log: the decision log; None: there is nothing to review, and no page.
    keys: who may sign in; None: everybody is an admin called local.
    """

    @property
    def log(self) -> DecisionLog | None: ...
    @property
    def keys(self) -> KeyHolder | None: ...


def router(service: Reviewable) -> APIRouter:
    """The pages of the review queue, to be included in an application.

    service: what has the log and the keys.
    """
    made = APIRouter(include_in_schema=False)
    if service.log is None:
        return made
    pages = ReviewPages(service, service.log)
    gets = {
        "/review": pages.all_items,
        "/review/next": pages.next_item,
        "/review/item/{decision:path}": pages.one_item,
        "/review/picture/{decision:path}": pages.picture,
        "/review/disagreements": pages.disagreements,
    }
    posts = {
        "/review/item/{decision:path}": pages.take,
        "/review/disagreements/{decision:path}": pages.settle,
        "/review/sign-out": pages.sign_out,
    }
    for path, handler in gets.items():
        made.add_api_route(path, pages.endpoint(handler), methods=["GET"])
    for path, handler in posts.items():
        made.add_api_route(path, pages.endpoint(handler), methods=["POST"])
    made.add_api_route("/review/sign-in", pages.endpoint(pages.door, free=True), methods=["GET"])
    entering = pages.endpoint(pages.sign_in, free=True)
    made.add_api_route("/review/sign-in", entering, methods=["POST"])
    for name in FILES:
        made.add_api_route(f"/review/{name}", pages.endpoint(_static(name), free=True))
    return made


def _static(name: str) -> "Callable[[Visit], Response]":
    def given(_: Visit) -> Response:
        kept = {"Cache-Control": "max-age=3600"}
        return Response(file_text(name), media_type=FILES[name], headers=kept)

    return given


class ReviewPages:
    """The pages of one service.

    service: what has the keys.
    log: the decision log.
    """

    def __init__(self, service: Reviewable, log: DecisionLog) -> None:
        self._service = service
        self._sessions = ReviewSessions(log, lambda: service.keys)
        settings = getattr(service, "settings", service)
        reviews = int(getattr(service, "reviews", getattr(settings, "reviews", 1)))
        self._queue = ReviewQueue(log, reviews=reviews)
        self._wrong, self._noted = 0, float("-inf")  # wrong keys, and when they were recorded

    def endpoint(
        self, handler: "Callable[[Visit], Response]", *, free: bool = False
    ) -> "Callable[[Request], Any]":
        """A function of requests: who is there, the form checked, errors as pages.

        handler: what makes the page.
        free: whether nobody needs to be signed in.
        """

        async def answered(request: Request) -> Response:
            visit = Visit(request)
            try:
                await run_in_threadpool(self._arrived, visit)
                if request.method == "POST":
                    visit.form = await read_form(request)
                    check_origin(request)
                response = await run_in_threadpool(self._guarded, handler, visit, free)
            except Refusal as refused:
                response = self._refused(visit, refused)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            if visit.cookie is not None:
                secure = request.url.scheme == "https"
                kind: Any = {"httponly": True, "samesite": "strict", "secure": secure}
                response.set_cookie(COOKIE, visit.cookie, path=visit.root or "/", **kind)
            return response

        return answered

    def all_items(self, visit: Visit) -> Response:
        """What waits, and how far the review is."""
        skipped = visit.request.query_params.get("skipped") == "1"
        chosen = self._queue.skipped if skipped else self._queue.waiting
        found = [self._listed(one) for one in chosen(visit.who, limit=LISTED)]
        return self._page(visit, "list.html", items=found, most=LISTED, skipped=skipped)

    def next_item(self, visit: Visit) -> Response:
        """The oldest item that waits; the page of all where nothing does."""
        found = self._queue.next(visit.who)
        if found is None:
            return visit.to("")
        last = visit.request.query_params.get("last")
        return visit.to(f"/item/{quote(found.id)}" + (f"?last={quote(last)}" if last else ""))

    def one_item(self, visit: Visit) -> Response:
        """One item with the classes to choose from; the guess only where it is asked for."""
        item = self._found(visit)
        asked = visit.request.query_params.get("guess") == "1"
        guess = self._queue.guess(item.id, visit.who) if asked else None
        last = visit.request.query_params.get("last")
        before = None
        if last and last != item.id and self._queue.log.decision(last) is not None:
            before = self._queue.own_label(last, visit.who)
        return self._page(
            visit,
            "item.html",
            item=item,
            shown=self._shown(item),
            choices=keyed(item.classes),
            own=self._queue.own_label(item.id, visit.who),
            guess=guess,
            last=before,
        )

    def take(self, visit: Visit) -> Response:
        """Take a label, none of these, or a skip; then the next item."""
        item, form = self._found(visit), visit.form
        kind = form.get("kind") or LABEL
        label = form.get("label") if kind == LABEL else None
        seen = form.get("guess_seen") == "1"
        self._queue.give(item.id, visit.who, label, kind=kind, guess_seen=seen)
        return visit.to("/next" + (f"?last={quote(item.id)}" if kind != SKIP else ""))

    def picture(self, visit: Visit) -> Response:
        """The picture of an item, small, and without anything else that its file holds."""
        png = self._shown(self._found(visit)).png
        if png is None:
            raise Refusal(404, "This item has no picture.")
        return Response(png, media_type="image/png")

    def disagreements(self, visit: Visit) -> Response:
        """The items on which reviewers disagree, with what each said."""
        found = [self._disputed(one, visit.who) for one in self._queue.disagreements()[:LISTED]]
        return self._page(visit, "disagreements.html", disputes=found, most=LISTED)

    def settle(self, visit: Visit) -> Response:
        """Take the label that settles a dispute."""
        kind = visit.form.get("kind") or LABEL
        label = visit.form.get("label") if kind == LABEL else None
        self._queue.settle(self._found(visit).id, visit.who, label, kind=kind)
        return visit.to("/disagreements")

    def door(self, visit: Visit) -> Response:
        """The form to sign in."""
        goal = visit.request.query_params.get("to", "")
        return self._beyond(visit, goal) if visit.session else self._door(visit, goal)

    def _door(self, visit: Visit, goal: str, status: int = 200, wrong: str = "") -> Response:
        """The form to sign in, which remembers the `goal`, and what was `wrong` before."""
        return self._page(visit, "sign-in.html", status, wrong=wrong, goal=goal)

    def _beyond(self, visit: Visit, goal: str) -> Response:
        """Where somebody wants to go who has signed in: the list, or the alarm page."""
        return RedirectResponse(f"{visit.root}/watch", 303) if goal == WATCH else visit.to("")

    def sign_in(self, visit: Visit) -> Response:
        """Sign in by a key of the right role."""
        keys = self._service.keys
        found = LOCAL if keys is None else keys.who(f"Bearer {visit.form.get('key', '').strip()}")
        goal = visit.form.get("to", "")
        if found is None:
            self._note_wrong_key()
            return self._door(visit, goal, 401, "This key is not known.")
        who = Reviewer(found.name, found.role)
        if who.role not in (REVIEW, ADMIN):
            self._queue.record(who, "sign-in refused", "role")
            wrong = f"The role of this key is {who.role}; reviewers need review or admin."
            return self._door(visit, goal, 403, wrong)
        visit.cookie = self._sessions.start(who)
        self._queue.record(who, "sign-in", "review")
        return self._beyond(visit, goal)

    def _note_wrong_key(self) -> None:
        """Record a wrong key; many at a time are one entry, so that nobody fills the log."""
        self._wrong += 1
        if time.monotonic() - self._noted >= PAUSE:
            who = Reviewer("unknown", "none")
            self._queue.record(who, "sign-in refused", "wrong key", keys=self._wrong)
            self._wrong, self._noted = 0, time.monotonic()

    def sign_out(self, visit: Visit) -> Response:
        """Sign out; the cookie is worth nothing from now on."""
        self._queue.record(visit.who, "sign-out", "review")
        self._sessions.end(visit.request.cookies.get(COOKIE))
        response = visit.to("/sign-in")
        response.delete_cookie(COOKIE, path=visit.root or "/")
        visit.cookie = None
        return response

    def _arrived(self, visit: Visit) -> None:
        """Find out who is there; without keys everybody is signed in."""
        try:
            visit.session = self._sessions.read(visit.request.cookies.get(COOKIE))
            if visit.session or self._service.keys is not None or visit.request.method != "GET":
                return
            visit.cookie = self._sessions.start(LOCAL)
            visit.session = self._sessions.read(visit.cookie)
        except LogUnavailableError as error:
            raise Refusal(503, f"{error}.") from error

    def _guarded(
        self, handler: "Callable[[Visit], Response]", visit: Visit, free: bool
    ) -> Response:
        """The page, if whoever asks may see it and the form is one of ours."""
        if not free and visit.session is None:
            if visit.request.method == "GET":
                return visit.to("/sign-in")
            raise Refusal(401, "Sign in first.")
        if not free and visit.request.method == "POST":
            token = visit.form.get("token", "")
            if visit.session is None or not self._sessions.is_token(visit.session, token):
                raise Refusal(403, "This form is too old or not from this page; load it again.")
        try:
            return handler(visit)
        except (LogFullError, LogUnavailableError) as error:
            raise Refusal(503, f"{error}.") from error
        except NescioError as error:
            raise Refusal(400, f"{error}.") from error

    def _refused(self, visit: Visit, refused: Refusal) -> Response:
        """A page that says why there is none."""
        return self._page(visit, "refused.html", refused.status, text=refused.text)

    def _found(self, visit: Visit) -> ReviewItem:
        """The item that the address names."""
        try:
            return self._queue.item(str(visit.request.path_params["decision"]))
        except (LogFullError, LogUnavailableError):
            raise
        except NescioError as error:
            raise Refusal(404, f"{error}.") from error

    def _shown(self, item: ReviewItem) -> items.ShownInput:
        return items.shown_input(self._queue.kept(item.id), item.columns)

    def _listed(self, item: ReviewItem) -> dict[str, Any]:
        """An item in few words."""
        shown = self._shown(item)
        if shown.kind == items.ROW:
            words = "; ".join(f"{name} {value}" for name, value in shown.row[:FEW])
        else:
            words = shown.text[:120]
        return {"id": item.id, "guard": item.guard, "time": item.time, "kind": shown.kind,
            "words": words}  # fmt: skip

    def _disputed(self, found: Standing, who: Reviewer) -> dict[str, Any]:
        item = self._queue.item(found.decision)
        others = all(vote.reviewer != who.name for vote in found.votes)
        return {
            **self._listed(item),
            "votes": [(vote.reviewer, said(vote.kind, vote.label)) for vote in found.votes],
            "classes": item.classes,
            "targets": item.targets,
            "settles": who.role == ADMIN or others,
        }

    def _page(self, visit: Visit, name: str, status: int = 200, **content: Any) -> Response:
        session = visit.session
        progress = None
        if session is not None and status == 200:
            progress = asdict(self._queue.progress(session.who))
        text = rendered(
            name,
            base=visit.base,
            root=visit.root,
            watched=hasattr(self._service, "guards"),
            who=None if session is None else session.who,
            token="" if session is None else session.token,
            keys=self._service.keys is not None,
            progress=progress,
            none_words=NONE_WORDS,
            **content,
        )
        return Response(text, status, media_type="text/html; charset=utf-8")
