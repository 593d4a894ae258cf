"""The alarm page, `/watch`, and the same for programs, `/v1/watch`.

The page is rendered by the server, complete without script, and nothing on it comes from elsewhere.
People sign in on the review page, as reviewer or admin; a browser that sends a name and a password
by HTTP, any name and the key as the password, gets in as well. Programs send the key in a header.
"""

import base64
import binascii
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from nescio.core import NescioError
from nescio.serving.decision_log import DecisionLog, LogUnavailableError
from nescio.serving.review_sessions import COOKIE, KeyHolder, ReviewSessions
from nescio.serving.watch import Watch
from nescio.serving.watch_charts import drift_chart, risk_chart

ROLE = "review"
STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --card: #fff; --ink: #1a1c1f; --soft: #565d64;
  --line: #dfdfd8; --blue: #1a5486; --pass: #1b6a3c; --fail: #a8201a; --pass-tint: #e9f3ec;
  --fail-tint: #fbe9e7; }
@media (prefers-color-scheme: dark) { :root { --paper: #141619; --card: #1a1d21; --ink: #e4e6e8;
  --soft: #a3aab1; --line: #30353b; --blue: #8fbfec; --pass: #7ccb98; --fail: #f4968c;
  --pass-tint: #182a20; --fail-tint: #351e1c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 0 1.1rem 2rem; background: var(--paper);
  color: var(--ink); font: 400 1rem/1.5 system-ui, "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 1.2rem 0 .3rem; } h2 { font-size: 1.2rem; margin: 1.6rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; } p { margin: .3rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; }
.cards { display: grid; gap: 1rem; align-items: start; margin-top: 1rem;
  grid-template-columns: minmax(0, 1fr); }
@media (min-width: 46rem) { .cards { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
section { padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); break-inside: avoid; }
.good, .bad { padding: .5rem .8rem; border-radius: 6px; }
.good { background: var(--pass-tint); border-left: 3px solid var(--pass); }
.bad { background: var(--fail-tint); border-left: 3px solid var(--fail); }
.chart { width: 100%; height: auto; margin: .4rem 0; }
.chart text { fill: var(--soft); font-size: 15px; } .chart .bold { fill: var(--fail); }
.grid { stroke: var(--line); } .bound { stroke: var(--fail); stroke-dasharray: 5 4; }
.line { stroke: var(--blue); stroke-width: 2; fill: none; } .dots { stroke-dasharray: 2 3; }
.band { fill: var(--blue); opacity: .14; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; font-weight: 400; padding: .1rem 1.2rem .1rem 0; }
th { color: var(--soft); } code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
@media print { :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb;
  --blue: #1a5486; --pass: #1b6a3c; --fail: #a8201a; --pass-tint: #fff; --fail-tint: #fff; } }
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{HASH}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
GUARANTEES = {
    "drift": "Guaranteed: while the inputs are like the calibration data, whatever their order, an "
    "alarm is ever raised with at most the probability of the bound. A change that leaves the "
    "scores as they are is not seen.",
    "risk": "Guaranteed: the share of wrong answers so far is between the bounds at all times, "
    "with the confidence above, if labels are right. Nothing is assumed about the inputs or the "
    "probabilities: answers are drawn for labels at random, with known probabilities.",
    "accuracy": "Not guaranteed: it holds if the probabilities are calibrated on this stream.",
}


class WatchedService(Protocol):
    """A service whose guards are watched.

    guards: of the service, by name, each with the version in use.
    log: the decision log, by which people are signed in; None: nobody is.
    keys: who may sign in; None: everybody may see the page.
    """

    @property
    def guards(self) -> Any: ...
    @property
    def log(self) -> DecisionLog | None: ...
    @property
    def keys(self) -> KeyHolder | None: ...
    def authorized(self, headers: Mapping[str, str], role: str) -> Any:
        """Who asks, refused unless they may do what `role` may."""


def router(service: WatchedService) -> APIRouter:
    """The routes of watching, to be included in an application.

    service: what has the guards and knows the keys.
    """
    made, check = APIRouter(tags=["watching"]), door(service)

    @made.get("/watch", include_in_schema=False)
    async def page(request: Request) -> Response:
        root = str(request.scope.get("root_path", ""))
        try:
            await run_in_threadpool(check, request, _with_key(request.headers))
        except NescioError as error:
            return _refused(error, request, root)
        html = await run_in_threadpool(watch_page, _watches(service), f"{root}/review")
        return HTMLResponse(html, headers=HEADERS)

    @made.get("/v1/watch", response_model=dict[str, Any], responses=_refusals())
    async def status(request: Request) -> Any:
        """Drift, risk and accuracy of each guard, and the alarms so far."""
        await run_in_threadpool(check, request, request.headers)
        found = await run_in_threadpool(lambda: [one.status() for one in _watches(service)])
        return JSONResponse({"guards": found})

    return made


def door(service: WatchedService) -> "Callable[[Request, Mapping[str, str]], None]":
    """What lets in reviewers and admins, by their sign-in or by a key, and refuses all others.

    service: whose keys count; where there are none, no sign-in does.
    """
    log = service.log
    sessions = None if log is None else ReviewSessions(log, lambda: service.keys)

    def check(request: Request, headers: Mapping[str, str]) -> None:
        cookie = request.cookies.get(COOKIE)
        if sessions is None or service.keys is None or sessions.read(cookie) is None:
            service.authorized(headers, ROLE)

    return check


def watch_page(watches: Iterable[Watch], review: str = "review") -> str:
    """The alarm page of some watches, with a link to the page `review`."""
    parts = [_guard(one, one.status()) for one in watches]
    if not parts:
        parts = [Markup("<p>Nothing is watched: decisions are not written to a log.</p>")]
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return str(
        Markup(
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<title>Watching</title><style>{style}</style></head><body><main>"
            '<h1>Watching</h1><p class="soft">{now}. Load the page again for news. For programs: '
            '<a href="v1/watch">v1/watch</a>. <a href="{review}">Review</a></p>{parts}</main>'
            "</body></html>"
        ).format(style=Markup(STYLE), now=now, review=review, parts=Markup("").join(parts))
    )


def _guard(watch: Watch, status: Mapping[str, Any]) -> Markup:
    """One guard: alarms, and what is watched."""
    alarms = Markup("").join(
        Markup('<p class="bad" role="alert"><strong>{}</strong>, replica {}, {}: {}</p>').format(
            one["kind"].capitalize(),
            one["replica"],
            time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(one["time"])),
            one["words"],
        )
        for one in status["alarms"]
    )
    quiet = Markup('<p class="good">No alarm so far.</p>')
    trouble = Markup('<p class="bad">{}</p>').format(status["trouble"])
    drift, risk = watch.drift, watch.risk
    said = {one["kind"]: one["words"] for one in status["alarms"]}
    for kind, words in said.items():  # they are above
        again = status[kind]["words"]
        if again.startswith(words):
            status[kind]["words"] = f"ALARM, see above.{again.removeprefix(words)}"
    cards = [
        _card("Drift", status["drift"], DRIFT, "" if drift is None else drift_chart(drift)),
        _card("Risk", status["risk"], RISK, risk_chart(risk) if risk.count else ""),
        _card("Accuracy", status["accuracy"], ACCURACY, ""),
    ]
    return Markup(
        '<h2>{} <span class="soft">version <code>{}</code>, replica {}</span></h2>{}{}'
        '<div class="cards">{}</div>'
    ).format(
        status["guard"],
        status["version"],
        status["replica"],
        alarms or quiet,
        trouble if status["trouble"] else "",
        Markup("").join(cards),
    )


DRIFT = {
    "decisions": ("decisions", "{:,}"),
    "p-value of no drift": ("p_value", "{:.3g}"),
    "false alarms, ever": ("false_alarm", "at most {:.1%}"),
    "replicas": ("replicas", "{}"),
}
RISK = {
    "answers": ("answers", "{:,}"),
    "labels": ("labels", "{:,}"),
    "labels that never came": ("missing_labels", "{:,}"),
    "wrong, estimated": ("estimate", "{:.2%}"),
    "at least": ("lower", "{:.2%}"),
    "at most": ("upper", "{:.2%}"),
    "allowed": ("risk", "{:.2%}"),
    "confidence": ("confidence", "{:.1%}"),
}
ACCURACY = {
    "answers": ("answers", "{:,}"),
    "without labels, if calibrated": ("estimated", "{:.2%}"),
}


def _card(
    title: str, known: Mapping[str, Any], rows: Mapping[str, tuple[str, str]], chart: str
) -> Markup:
    """What is watched: words, a chart, numbers, and the guarantee."""
    cells = [
        Markup("<tr><th scope='row'>{}</th><td>{}</td></tr>").format(name, form.format(known[key]))
        for name, (key, form) in rows.items()
        if known.get(key) is not None
    ]
    kind = "bad" if known.get("alarm") or known.get("contradicted") else "words"
    return Markup(
        '<section><h3>{}</h3><p class="{}">{}</p>{}<table>{}</table>'
        '<p class="soft">{}</p></section>'
    ).format(title, kind, known["words"], chart, Markup("").join(cells), GUARANTEES[title.lower()])


def _watches(service: WatchedService) -> list[Watch]:
    versions = [service.guards.current(name) for name in service.guards.names()]
    return [one.watch for one in versions if one.watch is not None]


def _with_key(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, with the password of a browser as the key."""
    sent = headers.get("authorization", "")
    kind, _, text = sent.partition(" ")
    if kind.lower() != "basic":
        return dict(headers)
    try:
        key = base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        key = ""
    return {**headers, "authorization": f"Bearer {key}"}


def _refused(error: NescioError, request: Request, root: str) -> Response:
    """Send a person to sign in, ask the browser for a key, or say why there is no page."""
    usual = 503 if isinstance(error, LogUnavailableError) else 400
    status, headers = int(getattr(error, "status", usual)), request.headers
    sent = "authorization" in headers or "x-api-key" in headers
    if status == 401 and not sent and "text/html" in headers.get("accept", ""):
        return RedirectResponse(f"{root}/review/sign-in?to=watch", 303, HEADERS)
    door = {"WWW-Authenticate": 'Basic realm="nescio: any name, a key as the password"'}
    page = Markup("<!doctype html><title>Watching</title><p>{}</p>").format(f"{error}.")
    return HTMLResponse(str(page), status, {**HEADERS, **(door if status == 401 else {})})


def _refusals() -> dict[int | str, dict[str, Any]]:
    from nescio.serving.described_routes import answers

    found: dict[int | str, dict[str, Any]] = answers(401, 403)
    return found
