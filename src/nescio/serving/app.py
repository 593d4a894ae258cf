"""The application: all routes, in front of them the path of predictions.

Routes are added here. A module with further ones has a function `router(service)` that gives a
`fastapi.APIRouter`, and its name in `ROUTERS`; the path parameters, the answers and the errors of a
route are in its description, which `/openapi.json` and `/docs` show. A route says who may use it
by a parameter `who: Who = Depends(need(service, "review"))`, which is the owner of the key.
Whatever is wrong is raised: a `RefusedError` with its status, or any other `NescioError`, which is
a 422. Routes run on the event loop: what takes longer than a millisecond, such as a query of the
log, goes through `await asyncio.to_thread(...)` or is a plain `def`. Bodies of requests are whole
and within the limits when a route gets them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, model_validator
from starlette.exceptions import HTTPException

from nescio.core import NescioError, finite
from nescio.serving.batching import RefusedError
from nescio.serving.described_routes import (
    ARROW,
    BODY,
    BYTES,
    PREDICTING,
    PREDICTION,
    answers,
)
from nescio.serving.front import Front, refusal_headers
from nescio.serving.keys import Who
from nescio.serving.served_guards import UnknownGuardError
from nescio.serving.service import Service
from nescio.serving.service_metrics import CONTENT_TYPE
from nescio.serving.service_pages import description_page, start_page
from nescio.version import VERSION

ROUTERS = ("inference_protocol",)  # modules of this room with a function router(service)
WITH_LOG = ("review_pages", "watch_pages")  # those that need a log
NAME = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"
SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
OPEN = ("/health", "/ready", "/docs", "/v2/health/live", "/v2/health/ready")  # need no key


class LoadRequest(BaseModel):
    """Which file is loaded.

    path: of the file, in the folder of guards; None: that of the start.
    force: also where inputs or classes differ.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    path: str | None = None
    force: bool = False

    @model_validator(mode="before")
    @classmethod
    def _said_as_json(cls, given: Any) -> Any:
        """Say what to send instead of another body, `given`."""
        keys = f"the keys are {', '.join(cls.model_fields)}"
        if isinstance(given, bytes):
            raise ValueError(f"send it as JSON, with Content-Type: application/json; {keys}")
        if isinstance(given, dict) and (other := set(given) - set(cls.model_fields)):
            raise ValueError(f"there is no key {min(other)!r}; {keys}")
        return given


class InUse(BaseModel):
    """The version that is in use now.

    guard: its name. version: which one.
    """

    guard: str
    version: str


class Status(BaseModel):
    """How the service is.

    status: a word.
    """

    status: str


def need(service: Service, role: str) -> Callable[[Request], Awaitable[Who]]:
    """A dependency of a route: who asks, refused unless they may do what `role` may.

    service: knows the keys.
    """

    async def found(request: Request) -> Who:
        return service.authorized(request.headers, role)

    return found


def make_app(service: Service) -> Front:
    """The application of `service`, as an ASGI server calls it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="nescio",
        version=VERSION,
        summary="Decisions of guards: answer, or abstain as unsure or ood.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    app.include_router(health_routes(service))
    app.include_router(guard_routes(service))
    app.include_router(admin_routes(service))
    for name in (*ROUTERS, *(() if service.log is None else WITH_LOG)):
        app.include_router(import_module(f"nescio.serving.{name}").router(service))
    add_pages(app, service)
    add_errors(app, service)
    return Front(service, app)


def health_routes(service: Service) -> APIRouter:
    """Whether the process lives, whether it accepts requests, and what it counts.

    service: is asked.
    """
    routes = APIRouter(tags=["health"])

    @routes.get("/health", response_model=Status)
    async def health() -> Any:
        """Whether the process lives."""
        return {"status": "ok"}

    @routes.get("/ready", response_model=Status, responses=answers(503))
    async def ready() -> Any:
        """Whether requests are accepted."""
        if not service.ready:
            raise RefusedError("the service is stopping", status=503, reason="stopping", retry=1)
        return {"status": "ready"}

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=answers(401, 403),
        dependencies=[Depends(need(service, "predict"))],
    )
    async def metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return routes


def guard_routes(service: Service) -> APIRouter:
    """What the guards guarantee; the routes that predict are answered by `Front`.

    service: has the guards.
    """
    allowed = [Depends(need(service, "predict"))]
    routes = APIRouter(tags=["guards"], dependencies=allowed)
    good = {ARROW: BYTES}
    predicting: dict[str, Any] = {
        "responses": answers(*PREDICTING, ok=PREDICTION, more=good),
        "openapi_extra": {"requestBody": BODY},
    }

    @routes.get("/v1/guard", responses=answers(401, 403, 404))
    async def guard() -> dict[str, Any]:
        """What the only guard guarantees, and what it assumes."""
        return service.version(None).about()

    @routes.get("/v1/guards", responses=answers(401, 403))
    async def guards() -> list[dict[str, Any]]:
        """What every guard guarantees, and what it assumes."""
        return [service.guards.current(name).about() for name in service.guards.names()]

    @routes.get("/v1/guards/{name}", responses=answers(401, 403, 404))
    async def one_guard(name: str) -> dict[str, Any]:
        """What a guard guarantees, what it assumes, and its versions."""
        kept = [one.version for one in service.guards.served(name).versions]
        return {**service.version(name).about(), "versions": kept}

    @routes.get("/v1/guards/{name}/watch", responses=answers(401, 403, 404))
    async def watch(
        name: str, _: Annotated[Who, Depends(need(service, "review"))]
    ) -> dict[str, Any]:
        """What is known about drift, about the risk and about the accuracy of a guard."""
        watching = service.version(name).watch
        if watching is None:
            raise UnknownGuardError(f"{name!r} is not watched, as the service has no log")
        found: dict[str, Any] = finite(await asyncio.to_thread(watching.status))
        return found

    @routes.post("/v1/predict", **predicting)
    async def predict() -> Any:
        """Decide about the rows of the body, by the only guard."""
        raise AssertionError("Front answers this")

    @routes.post("/v1/guards/{name}/predict", **predicting)
    async def predict_named(name: str) -> Any:
        """Decide about the rows of the body, by the guard of this name."""
        raise AssertionError(f"Front answers this for {name}")

    return routes


def admin_routes(service: Service) -> APIRouter:
    """New versions of guards.

    service: has the guards.
    """
    routes = APIRouter(tags=["admin"])
    admin = Depends(need(service, "admin"))

    @routes.post(
        "/v1/guards/{name}/load",
        response_model=InUse,
        responses=answers(400, 401, 403, 404, 413, 422, 503),
    )
    async def load(name: str, who: Annotated[Who, admin], wanted: LoadRequest | None = None) -> Any:
        """Load a new version from a file, and use it for all later requests."""
        wanted = wanted or LoadRequest()
        path = service.allowed_path(name, wanted.path)
        version = await service.load(name, path, who=who, force=wanted.force)
        return {"guard": version.name, "version": version.version}

    @routes.post(
        "/v1/guards/{name}/rollback",
        response_model=InUse,
        responses=answers(400, 401, 403, 404, 409, 413, 503),
    )
    async def rollback(name: str, who: Annotated[Who, admin]) -> Any:
        """Use the version before the current one again."""
        version = await service.rollback(name, who=who)
        return {"guard": version.name, "version": version.version}

    return routes


def add_pages(app: FastAPI, service: Service) -> None:
    """Where to go, and the description of all routes for people; nothing is from elsewhere.

    app: gets the pages. service: says whether keys are needed.
    """
    made = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = made()
            if service.keys is not None:
                schema.setdefault("components", {})["securitySchemes"] = SECURITY
                for path, methods in schema["paths"].items():
                    for one in () if path in OPEN else methods.values():
                        one["security"] = [{"bearer": []}, {"key": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """All routes, for people."""
        return HTMLResponse(description_page(described()))

    @app.get("/", include_in_schema=False)
    async def start() -> HTMLResponse:
        """Where to go from here, for people."""
        return HTMLResponse(start_page(VERSION, has_log=service.log is not None))


def add_errors(app: FastAPI, service: Service) -> None:
    """Answer every error as {"error": "..."}, with its status.

    app: gets the handlers. service: knows what an error means.
    """

    async def refused(_: Request, error: Exception) -> JSONResponse:
        said = service.refusal(error)
        service.metrics.requests.add(str(said.status))
        headers = {key.decode(): value.decode() for key, value in refusal_headers(said)}
        return JSONResponse({"error": str(said)}, said.status, headers)

    async def framework(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        service.metrics.requests.add(str(error.status_code))
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        service.metrics.requests.add("422")
        wrong = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        ]
        return JSONResponse({"error": "; ".join(wrong[:5])}, 422)

    app.add_exception_handler(NescioError, refused)
    app.add_exception_handler(Exception, refused)
    app.add_exception_handler(HTTPException, framework)
    app.add_exception_handler(RequestValidationError, invalid)
