"""Guards behind HTTP: the service, its decision log, its review queue, and what it watches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.serving.client import Client as Client
    from nescio.serving.keys import Keys as Keys
    from nescio.serving.server import run_in_thread as run_in_thread
    from nescio.serving.server import serve as serve
    from nescio.serving.service import Service as Service
    from nescio.serving.service_settings import ServiceSettings as ServiceSettings

# Each is imported where it is first asked for: a client needs neither FastAPI nor SQLAlchemy.
HOMES = {
    "Client": "client",
    "Keys": "keys",
    "Service": "service",
    "ServiceSettings": "service_settings",
    "run_in_thread": "server",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
